// The reconciles of all replicas that the page keeps, in the order of their ends.
import type { Reconcile } from "./data";

/** The page keeps this number of reconciles; older ones are dropped. */
const MAX_RECONCILES = 100_000;

/** Returns the time of the end of a reconcile, in milliseconds since the epoch. */
export const ended = (one: Reconcile): number => one.began + (one.seconds ?? 0) * 1000;

export class ReconcileLog {
  all: Reconcile[] = [];

  /** Adds reconciles, which are in the order of their ends for each controller of a replica. */
  add(added: Reconcile[], sorted: boolean): void {
    if (added.length === 0) return;
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
