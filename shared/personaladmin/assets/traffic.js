// The data of the chart: the seconds that the server has sent, by operation.
"use strict";

const WINDOW = 300; // seconds

// Traffic holds the last seconds of every operation; "" is the sum of all.
class Traffic {
  from = 0;
  until = 0; // the second after the last one
  marks = [];
  #operations = new Map();

  get names() {
    return Array.from(this.#operations.keys()).filter(Boolean).sort();
  }

  // add appends a response of the server.
  add(response) {
    if (response.from > this.until) { // a gap: drops what came before
      this.#operations.clear();
      this.from = this.until = response.from;
    }
    const known = this.until - response.from;
    for (const [name, series] of Object.entries({ "": response.all, ...response.operations })) {
      this.#append(name, series, known);
    }
    this.marks.push(...response.marks.filter((mark) => mark.at >= this.until));
    this.until = Math.max(this.until, response.until);
    this.#dropOldest(this.until - this.from - WINDOW);
  }

  // append adds the seconds after the known ones.
  #append(name, series, known) {
    if (!this.#operations.has(name)) {
      this.#operations.set(name, { requests: [], errors: [], p50: [], p99: [] });
    }
    for (const [key, values] of Object.entries(this.#operations.get(name))) {
      fill(values, this.until - this.from);
      values.push(...series[key].slice(known));
    }
  }

  // dropOldest drops the oldest seconds. An operation without recent requests gets
  // zeros.
  #dropOldest(seconds) {
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

  // columns returns the seconds and the values of an operation in them. A latency is
  // null in a second without requests.
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
