// The reconciles of all replicas that the page keeps, in the order of their ends.
import { isFailed, type Part, type Reconcile } from "./data";

/** The page keeps this number of reconciles; older ones are dropped. */
const MAX_RECONCILES = 100_000;

/** Returns the time of the end of a reconcile, in milliseconds since the epoch. */
export const ended = (one: Reconcile): number => one.began + (one.seconds ?? 0) * 1000;

/** The page keeps this number of failing keys; those that have not been reconciled for the longest time are dropped. */
const MAX_FAILING = 500;

/** A key whose newest known reconcile has failed. */
export interface FailingKey extends Part {
  request: string;
  controller: string;
  /** The number of failed reconciles since the last known one that has not failed. */
  failures: number;
  /** The newest reconcile. */
  last: Reconcile;
}

export class ReconcileLog {
  all: Reconcile[] = [];
  #failing = new Map<string, FailingKey>();

  /** The failing keys, in the order of their last reconciles. */
  get failing(): FailingKey[] {
    return [...this.#failing.values()];
  }

  #follow(last: Reconcile): void {
    const { store, controller, request } = last;
    const id = JSON.stringify([store.name, controller, request]);
    const failures = (this.#failing.get(id)?.failures ?? 0) + 1;
    this.#failing.delete(id);
    if (!isFailed(last)) return;
    this.#failing.set(id, { store, controller, request, failures, last });
    if (this.#failing.size > MAX_FAILING) this.#failing.delete(this.#failing.keys().next().value!);
  }

  /** Adds reconciles, which are in the order of their ends for each controller of a replica. */
  add(added: Reconcile[], sorted: boolean): void {
    if (added.length === 0) return;
    for (const one of added) this.#follow(one);
    let all: Reconcile[];
    if (sorted) {
      // Events of another replica may have arrived before; only the reconciles since then are sorted.
      const first = added.reduce((least, one) => Math.min(least, ended(one)), Infinity);
      let from = this.all.length;
      while (from > 0 && ended(this.all[from - 1]!) > first) from -= 1;
      const tail = this.all.slice(from).concat(added).sort((a, b) => ended(a) - ended(b));
      all = this.all.slice(0, from).concat(tail);
    } else {
      all = this.all.concat(added);
    }
    for (const one of all.splice(0, Math.max(0, all.length - MAX_RECONCILES))) one.store.forget(one.id);
    this.all = all;
  }
}
