export function formatDate(date) {
  return date.toISOString().slice(0, 10);
}

export function shorten(text, length = 20) {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
