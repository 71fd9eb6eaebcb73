// One search over several partitions: each is asked for a page at a time, and the messages are
// merged by the time when they were published.

const AT_ONCE = 4;

/** Call `work` for every item, a few at once; none is begun after one failed. */
export async function each(items, work) {
  const left = [...items];
  const worker = async () => {
    try {
      while (left.length) await work(left.shift());
    } catch (problem) {
      left.length = 0;
      throw problem;
    }
  };
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, worker));
}

/**
 * `ask(topic, next)` returns the next page of a partition; `next` is null for the first one. A
 * partition is asked again only when all its messages were taken, so at most a page of each waits.
 */
export class Merge {
  constructor(topics, ask, newestFirst) {
    this.ask = ask;
    this.newestFirst = newestFirst;
    this.parts = topics.map((topic) => ({ topic, next: null, atEnd: false, waiting: [] }));
    this.end = new Map();
    this.taken = [];
    this.scanned = 0;
  }

  get atEnd() {
    return this.parts.every((part) => part.atEnd && !part.waiting.length);
  }

  /** Take so many messages more. Calls `show` with those found until then, in order. */
  async more(number, show) {
    const wanted = this.taken.length + number;
    while (this.taken.length < wanted && !this.atEnd) {
      await each(this.parts.filter((part) => !part.atEnd && !part.waiting.length), async (part) => {
        while (!part.atEnd && !part.waiting.length) {
          await this.#page(part);
          const found = [...this.taken, ...this.parts.flatMap((other) => other.waiting).sort(this.#order)];
          show(found.slice(0, wanted));
        }
      });
      this.#take(wanted);
    }
    return this.taken;
  }

  async #page(part) {
    const page = await this.ask(part.topic, part.next);
    if (part.next === null) this.end.set(part.topic, page.end_offset);
    part.waiting = page.messages.map((message) => ({ ...message, topic: part.topic }));
    part.next = page.next_offset;
    part.atEnd = page.at_end;
    this.scanned += page.scanned;
  }

  /** Messages in order, until a partition has to be asked again: its next one may come first. */
  #take(wanted) {
    while (this.taken.length < wanted && this.parts.every((part) => part.atEnd || part.waiting.length)) {
      const [first] = this.parts.filter((part) => part.waiting.length)
        .sort((a, b) => this.#order(a.waiting[0], b.waiting[0]));
      if (!first) return;
      this.taken.push(first.waiting.shift());
    }
  }

  #order = (a, b) => (this.newestFirst ? b.time_us - a.time_us : a.time_us - b.time_us);
}
