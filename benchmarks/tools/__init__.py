"""How many of the tools a task needs are among those offered, on a catalogue of hundreds."""
