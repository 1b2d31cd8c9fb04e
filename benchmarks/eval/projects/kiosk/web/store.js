// Kept in memory; the counters send everything again after a restart.
const tickets = new Map()

export function addTicket (ticket) {
  if (tickets.has(ticket.number)) return false
  tickets.set(ticket.number, ticket)
  return true
}

export function countTickets (day) {
  const counts = {}
  for (const ticket of tickets.values()) {
    if (ticket.day === day) counts[ticket.kind] = (counts[ticket.kind] ?? 0) + 1
  }
  return counts
}
