import { formatDate, shorten } from "./format.js";
import { Store } from "./store.js";

const store = new Store();
const [command, ...words] = process.argv.slice(2);

if (command === "add") {
  store.add(words.join(" "), new Date());
}
for (const card of store.list()) {
  console.log(`${card.id} ${shorten(card.title)} ${formatDate(card.due)}`);
}
