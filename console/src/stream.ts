// Reads server-sent events, and reconnects.

export type Connection = "connecting" | "live" | "lost" | "unauthorized" | "forbidden";

/** The server sends an event or a comment every few seconds, so a long silence means a broken connection. */
const SILENCE = 15_000;
/** A connection that ends after this time is opened again at once. */
const SETTLED = 2_000;
const MIN_DELAY = 500;
const MAX_DELAY = 5_000;
/** The maximum length of the text of an error response that is shown. */
const MAX_PROBLEM = 300;

export const problemOf = async (response: Response): Promise<string> => (await response.text()).slice(0, MAX_PROBLEM);

export const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

class Refused extends Error {
  constructor(readonly connection: "unauthorized" | "forbidden", problem: string) {
    super(problem);
  }
}

interface Listener {
  headers: () => Record<string, string>;
  event: (data: string) => void;
  /** The connection is lost, for this reason. */
  lost: (connection: Connection, problem: string) => void;
}

export class EventStream {
  #path: string;
  #listener: Listener;
  #retry: (() => void) | null = null;

  constructor(path: string, listener: Listener) {
    this.#path = path;
    this.#listener = listener;
  }

  /** Ends the wait before the next attempt. */
  retry(): void {
    this.#retry?.();
  }

  async run(): Promise<void> {
    for (let delay = MIN_DELAY; ; ) {
      const began = Date.now();
      let refused = false;
      try {
        const events = await this.#read();
        // The server ends a stream from time to time, to check the permission again.
        if (events > 0 && Date.now() - began > SETTLED) continue;
        this.#listener.lost("lost", "the server closed the connection");
      } catch (error) {
        refused = error instanceof Refused;
        this.#listener.lost(error instanceof Refused ? error.connection : "lost", messageOf(error));
      }
      delay = Date.now() - began > SILENCE ? MIN_DELAY : Math.min(delay * 2, MAX_DELAY);
      await new Promise<void>((resolve) => {
        this.#retry = resolve;
        // After a refusal, the user enters another token.
        if (!refused) setTimeout(resolve, delay);
      });
    }
  }

  /** Reads until the stream ends. Returns the number of events. */
  async #read(): Promise<number> {
    const abort = new AbortController();
    let timer = setTimeout(() => abort.abort(), SILENCE);
    try {
      const response = await fetch(this.#path, { headers: this.#listener.headers(), signal: abort.signal, cache: "no-store" });
      if (response.status === 401) throw new Refused("unauthorized", await problemOf(response));
      if (response.status === 403) throw new Refused("forbidden", await problemOf(response));
      if (!response.ok || !response.body) throw new Error(await problemOf(response));
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let events = 0;
      for (let chunks: string[] = []; ; ) {
        const { done, value } = await reader.read();
        if (done) return events;
        clearTimeout(timer);
        timer = setTimeout(() => abort.abort(), SILENCE);
        // The chunks of a large event are joined once, when its end has arrived.
        const ends = value.includes("\n\n") || (value.startsWith("\n") && chunks.at(-1)?.endsWith("\n"));
        chunks.push(value);
        if (!ends) continue;
        const parts = chunks.join("").split("\n\n");
        chunks = [parts.pop() ?? ""];
        for (const part of parts) {
          const data = part.split("\n").find((line) => line.startsWith("data: "));
          if (!data) continue;
          this.#listener.event(data.slice(6));
          events += 1;
        }
      }
    } finally {
      clearTimeout(timer);
      abort.abort();
    }
  }
}
