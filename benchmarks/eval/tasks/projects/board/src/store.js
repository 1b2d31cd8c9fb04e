export const MAX_CARDS = 50;

export class Store {
  constructor() {
    this.cards = [];
  }

  add(title, due) {
    if (this.cards.length >= MAX_CARDS) {
      throw new Error("to many cards");
    }
    const card = { id: this.cards.length + 1, title, due };
    this.cards.push(card);
    return card;
  }

  list() {
    return [...this.cards];
  }
}
