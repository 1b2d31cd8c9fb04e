import assert from "node:assert/strict";
import { test } from "node:test";

import { formatDate, shorten } from "../src/format.js";

test("a date is written as year, month and day", () => {
  assert.equal(formatDate(new Date("2026-03-01T12:00:00Z")), "2026-03-01");
});

test("a long text is cut", () => {
  assert.equal(shorten("abcdef", 4), "abc…");
});
