// What the chart shows: the seconds that the server told of, by operation.
"use strict";

const WINDOW = 300; // seconds

// Traffic holds the last seconds of every operation; "" is all of them.
class Traffic {
  from = 0;
  until = 0; // the second behind the last
  marks = [];
  #operations = new Map();

  get names() {
    return Array.from(this.#operations.keys()).filter(Boolean).sort();
  }

  // add appends an answer of the server.
  add(answer) {
    if (answer.from > this.until) { // what lies between is forgotten
      this.#operations.clear();
      this.from = this.until = answer.from;
    }
    const known = this.until - answer.from;
    for (const [name, series] of Object.entries({ "": answer.all, ...answer.operations })) {
      this.#append(name, series, known);
    }
    this.marks.push(...answer.marks.filter((mark) => mark.at >= this.until));
    this.until = Math.max(this.until, answer.until);
    this.#forget(this.until - this.from - WINDOW);
  }

  // append adds the seconds behind those that are known.
  #append(name, series, known) {
    if (!this.#operations.has(name)) {
      this.#operations.set(name, { requests: [], errors: [], p50: [], p99: [] });
    }
    for (const [key, values] of Object.entries(this.#operations.get(name))) {
      fill(values, this.until - this.from);
      values.push(...series[key].slice(known));
    }
  }

  // forget drops the oldest seconds. An operation that did nothing lately gets
  // zeros.
  #forget(seconds) {
    const over = Math.max(0, seconds);
    for (const own of this.#operations.values()) {
      for (const values of Object.values(own)) {
        fill(values, this.until - this.from);
        values.splice(0, over);
      }
    }
    this.from += over;
    this.marks = this.marks.filter((mark) => mark.at >= this.from);
  }

  // columns returns the seconds and what an operation did in them. Where nothing
  // was answered there is no latency either.
  columns(operation, keys) {
    const own = this.#operations.get(operation);
    const times = Array.from({ length: this.until - this.from }, (_, i) => this.from + i);
    return [times, ...keys.map((key) => {
      const values = own ? own[key] : times.map(() => 0);
      return key.startsWith("p") ? values.map((value) => value || null) : values;
    })];
  }
}

const fill = (values, length) => {
  while (values.length < length) values.push(0);
};
