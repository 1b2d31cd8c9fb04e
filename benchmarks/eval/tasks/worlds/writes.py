"""What AgentDojo's tools do to the world. Needs nothing of the package, so anyone may ask."""

WRITES = {
    "add_calendar_event_participants", "add_user_to_channel", "append_to_file",
    "cancel_calendar_event", "create_calendar_event", "create_file", "delete_email", "delete_file",
    "get_unread_emails", "invite_user_to_slack", "post_webpage", "remove_user_from_slack",
    "reschedule_calendar_event", "reserve_car_rental", "reserve_hotel", "reserve_restaurant",
    "schedule_transaction", "send_channel_message", "send_direct_message", "send_email",
    "send_money", "share_file", "update_password", "update_scheduled_transaction",
    "update_user_info",
}  # fmt: skip
"""The tools that change something; AgentDojo itself does not say. Most are called so;
`get_unread_emails` marks them as read. `python worlds check` compares states before and after."""
