// A server of the page with made-up data, for tests and for work on the page: `node test/mock.mjs [FOLDER] [PORT]`.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";

const TYPES = { html: "text/html", js: "text/javascript", css: "text/css" };
export const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
  + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
export const HOSTILE = `default/<img src=x onerror="document.title='hacked'">&amp;"'\u202e`;

/** A reconcile by its number. Two of three are of the controller `website`, and one of 23 fails. */
function reconcile(number, ago, more = {}) {
  const failed = number % 23 === 0;
  const controller = more.controller ?? (number % 3 ? "website" : "certificates");
  const request = more.request ?? (number % 50 === 7 ? HOSTILE : `default/shop-${number % 1000}`);
  const causes = controller === "website"
    ? [`updated Website.example.com ${request} (spec, labels)`, `updated Deployment.apps ${request} (other fields)`,
      ...(number % 10 === 1 ? [`added Secret ${request}-tls`, `deleted Pod ${request}`] : [])]
    : [`updated Secret ${request} (data)`];
  return {
    id: `5e1f00d5e1f00d00-${number}`,
    controller,
    request,
    causes,
    omitted: 0,
    waitedSeconds: 0.004 + (number % 7) / 50,
    beganSecondsAgo: ago,
    seconds: 0.002 + (number % 11) / 90,
    result: failed ? "error" : number % 4 ? "success" : "requeue_after",
    error: failed ? `update ${controller === "website" ? "Deployment" : "Secret"} ${request}: the object was changed by another client; read it again and retry` : null,
    ...more,
  };
}

/** The results of a controller after a number of reconciles. */
function results(finished, healthy) {
  const error = healthy ? 0 : Math.round(finished / 23);
  const requeue_after = Math.round((finished - error) / 4);
  return { success: finished - error - requeue_after, error, requeue: 0, requeue_after };
}

/** The histogram of a handler: nearly all calls are fast, and one of 1,000 is slow. */
function latency(calls) {
  const slow = Math.floor(calls / 1000);
  const medium = Math.floor(calls / 10);
  return [[0.00003, calls - slow - medium], [0.001, medium], [0.3, slow]]
    .filter(([, calls]) => calls > 0).map(([upToSeconds, calls]) => ({ upToSeconds, calls }));
}

const handler = (name) => ({ name, synced: true, depth: 3, depthMax: 41, calls: 0, panics: 0, blocked: 0, secondsTotal: 0, latency: [] });

/** An informer with a number of objects, and of events that its handlers have received. */
const informer = (name, objects, events, handlers, more = {}) => ({
  name, what: name, running: true, synced: true, phase: "Watching", version: "184467", versionAgeSeconds: 1.4, lastError: null, failures: 0,
  nextAttemptSeconds: null, lists: 1, relists: { first: 1 }, events, watches: 3, resyncs: 0, objects, bytes: objects * 840, changes: events,
  queued: 0, undecodable: 0, undecodableTotal: 0, panics: 0, crash: null, crashes: 0,
  handlers: handlers.map((name) => ({ ...handler(name === "metrics" ? name : `controller ${name}`), calls: events, secondsTotal: events / 1000, latency: latency(events) })), ...more,
});

/** What has never synced has no version, no events and no calls. */
const failing = {
  synced: false, phase: "BackingOff", failures: 4, lists: 4, nextAttemptSeconds: 2.4, version: "", versionAgeSeconds: null, watches: 0, relists: { first: 4 },
  lastError: "list ingresses.v1.networking.k8s.io: 403 Forbidden: cannot list resource; grant `list` and `watch` in the role of the operator",
  handlers: [{ ...handler("controller website"), synced: false, depth: 0, depthMax: 0 }],
};

/** The sources of a controller. The informers of Deployments and Ingresses are not of the reconciled kind. */
function watches(controller) {
  const watch = (role, source, resource, informer) => ({ role, source, resource, informers: [informer] });
  if (controller !== "website") return [watch("for", "kind Secret.v1", "secrets/v1", "secrets.v1 namespace=cert-manager")];
  return [watch("for", "kind Website.v1.example.com", "websites.example.com/v1", "websites.v1.example.com"),
    watch("owns", "kind Deployment.v1.apps", "deployments.apps/v1", "deployments.v1.apps"),
    watch("owns", "kind Ingress.v1.networking.k8s.io", "ingresses.networking.k8s.io/v1", "ingresses.v1.networking.k8s.io"),
    { role: "source", source: "timer", resource: "", informers: [] }];
}

const write = (verb, resource, subresource, count, failed) => ({ verb, resource, subresource, count, failed });

/** Each reconcile updates an object, and fails if this fails. Those of `website` then patch the status. */
const writes = (controller, finished, failed) => (controller === "website"
  ? [write("update", "deployments.apps/v1", "", finished, failed), write("patch", "websites.example.com/v1", "status", finished - failed, 0)]
  : [write("update", "secrets/v1", "", finished, failed)]);

/** The objects of an informer by key, as the cache of the program has them. */
function websites(number) {
  const website = (name) => ({
    apiVersion: "example.com/v1", kind: "Website",
    metadata: {
      name, namespace: "default", uid: `uid-${name}`, resourceVersion: "184467", generation: 1, labels: { app: "shop", text: HOSTILE },
      managedFields: [{ manager: "kubectl", operation: "Apply", fieldsV1: { "f:spec": { "f:replicas": {} } } }],
    },
    spec: { host: `${name}.example.com`, image: "registry.example.com/shop:1.4.2", replicas: 2, regions: ["eu-1", "eu-2", "us-1"], resources: { cpu: "500m", memory: "256Mi" }, tls: true },
    status: { conditions: [{ type: "Ready", status: "True", reason: "Deployed", message: "all replicas are ready" }], readyReplicas: 2 },
  });
  const all = new Map([...Array(number).keys()].map((number) => [`default/shop-${number}`, website(`shop-${number}`)]));
  return all.set(HOSTILE, website(HOSTILE.slice("default/".length)));
}

const secrets = () => new Map([...Array(37).keys()].map((number) => (number === 0 ? "ca" : `tls-${number}`)).map((name) => [`cert-manager/${name}`, {
  apiVersion: "v1", kind: "Secret", metadata: { name, namespace: "cert-manager", uid: `uid-${name}`, resourceVersion: "7" },
  data: { "tls.key": "(redacted, 1704 bytes)" }, type: "kubernetes.io/tls",
}]));

/** Objects as items of a list of a built-in kind, which have no type. */
const items = (number) => new Map([...Array(number).keys()].map((at) => [`default/shop-${at}`, {
  metadata: { name: `shop-${at}`, namespace: "default", uid: `uid-${at}`, resourceVersion: "184467" }, spec: { replicas: 2 },
}]));

/** The numbers of objects. */
const OBJECTS = { "websites.v1.example.com": 1000, "deployments.v1.apps": 1000, "pods.v1 form=Metadata": 4821, "secrets.v1 namespace=cert-manager": 37 };

export class Mock {
  constructor(options = {}) {
    Object.assign(this, { folder: "../crates/informer-runtime/src/console/assets", prefix: "", backlog: 300, perSecond: 40, period: 1000, healthy: false, token: "", identity: "website-operator-5d9c-x7k2p", leader: true, members: 0, down: "" }, options);
    this.born = Date.now() / 1000 - (this.age ?? 4000);
    this.number = 0;
    this.pid = 4242;
    if (this.objects) this.cached = { "deployments.v1.apps": items(1000), "pods.v1 form=Metadata": items(4821), "websites.v1.example.com": websites(this.websites ?? 1000), "secrets.v1 namespace=cert-manager": secrets() };
  }

  /** Changes an object as another client of the API server would. */
  change(key, edit, informer = "websites.v1.example.com") {
    const object = structuredClone(this.cached[informer].get(key));
    edit(object);
    object.metadata.resourceVersion = String(Number(object.metadata.resourceVersion) + 1);
    this.cached[informer].set(key, object);
  }

  /** Responds to a read of objects with a status and a body. */
  readObjects(name, query) {
    const [informer, key, after] = ["informer", "key", "after"].map((one) => query.get(one) ?? "");
    if (!this.cached) return [403, "403: this console shows no objects; show them in the program with Console::show_objects\n"];
    const of = this.cached[informer] ?? new Map();
    if (name === "v1/object") {
      const object = of.get(key);
      if (!object) return [404, `404: read object ${key} of ${informer}: the cache has no such object; check the key\n`];
      const { resourceVersion } = object.metadata;
      return [200, JSON.stringify({ version: 1, informer, key, resourceVersion, metadataOnly: false, redacted: object.kind === "Secret", object })];
    }
    const matching = [...of.keys()].filter((one) => one.includes(query.get("contains") ?? "")).sort();
    const later = matching.filter((one) => one > after);
    const objects = later.slice(0, 500).map((one) => ({ key: one, resourceVersion: of.get(one).metadata.resourceVersion }));
    const next = later.length > 500 ? objects.at(-1).key : null;
    const before = matching.length - later.length;
    return [200, JSON.stringify({ version: 1, informer, total: of.size, matching: matching.length, before, objects, next })];
  }

  snapshot() {
    const uptimeSeconds = Date.now() / 1000 - this.born;
    const total = Math.round(uptimeSeconds * 40);
    const wave = Math.sin(uptimeSeconds / 8);
    const objects = (name) => this.cached?.[name]?.size ?? OBJECTS[name];
    const of = (name, events, handlers, more) => informer(name, objects(name), Math.round(events), handlers, more);
    const informers = [
      of("websites.v1.example.com", total, ["website"]), of("deployments.v1.apps", total, ["website"], { relists: { first: 1, watch_expired: 2 }, lists: 3 }),
      of("pods.v1 form=Metadata", total * 1.5, ["metrics"]), of("secrets.v1 namespace=cert-manager", total / 3, ["certificates"]),
      informer("ingresses.v1.networking.k8s.io", this.healthy ? 12 : 0, this.healthy ? 12 : 0, ["website"], this.healthy ? {} : failing),
    ];
    const share = { website: 2 / 3, certificates: 1 / 3 };
    const finished = (name) => Math.round(total * share[name]);
    const failed = (name) => results(finished(name), this.healthy).error;
    const running = {
      website: [reconcile(7, 0.21), reconcile(8, 1.4)], certificates: [reconcile(9, 0.35)],
    };
    const queue = (name, ready, waiting) => ({
      name, ready, waiting, processing: running[name].length, unfinishedSeconds: 0.2, longestSeconds: Math.max(...running[name].map((one) => one.beganSecondsAgo)),
      oldestSeconds: ready / 400, otherDepths: 0, orderFailed: false,
      depths: ready ? [{ priority: 0, group: null, ready: ready - 4 }, { priority: -100, group: null, ready: 4 }] : [],
      added: finished(name) + running[name].length + ready, retries: failed(name), started: finished(name) + running[name].length,
      queuedSecondsTotal: finished(name) * 0.03, done: finished(name), workedSecondsTotal: finished(name) * 0.05,
    });
    const controller = (name, kind) => ({
      name, kind, phase: "Reconciling", failing: this.failing ?? null, failingSeconds: this.failingSeconds ?? null, workers: 8, active: running[name].length, terminalErrors: 0, panics: 0, timeouts: 0, triggerPanics: 0, sources: [kind],
      watches: watches(name), writes: writes(name, finished(name), failed(name)), results: results(finished(name), this.healthy),
      running: running[name].map((one) => ({ ...one, seconds: null, result: null, error: null })),
      shard: this.members ? { active: true, members: this.members, refused: 0, remembered: 40 } : null,
    });
    const conflicts = failed("website") + failed("certificates");
    const request = (verb, code, count, mean) => ({ verb, code, count, seconds: count * mean });
    const requests = [request("update", 200, finished("website") + finished("certificates") - conflicts, 0.012), request("update", 409, conflicts, 0.009),
      request("patch", 200, finished("website") - failed("website"), 0.008), request("get", 200, 311, 0.007)].filter(({ count }) => count > 0);
    return {
      version: 1, manager: "Running",
      process: { library: "0.1.0", program: "website-operator", host: "node-1", pid: this.pid, uptimeSeconds, tasks: 61, threads: 4, residentBytes: Math.round(61e6 + wave * 2e6) },
      informers, queues: [queue("website", Math.round(22 + wave * 15), 16), queue("certificates", 0, 8)],
      controllers: [controller("website", "Website.example.com"), controller("certificates", "Secret")],
      leases: this.identity === null ? [] : [{ kind: "leader-election", namespace: "shops", name: "website-operator", identity: this.identity, active: this.leader, holder: this.leader ? this.identity : "website-operator-5d9c-x7k2p", failures: 0, failingSeconds: null, lastError: null }],
      client: { server: "10.96.0.1:443", requests },
      omitted: { informers: 0, queues: 0, controllers: 0, leases: 0 },
      actions: this.actions ? { token: this.actions } : null,
      showsObjects: this.cached !== undefined,
    };
  }

  event(size, first) {
    const snapshot = this.snapshot();
    snapshot.reconciles = [];
    snapshot.dropped = first ? 0 : this.dropped ?? 0;
    for (let at = 0; at < size; at++) snapshot.reconciles.push(reconcile(this.number++, (first ? (size - at) / 40 : (size - at) / size)));
    if (this.healthy) for (const one of snapshot.reconciles) if (one.error) [one.result, one.error] = ["success", null];
    return `event: snapshot\ndata: ${JSON.stringify(snapshot)}\n\n`;
  }

  async respond(request, response) {
    const url = new URL(request.url, "http://localhost");
    const path = url.pathname.slice(this.prefix.length);
    const send = (status, type, body) => {
      response.writeHead(status, { "content-type": type, "content-security-policy": POLICY });
      response.end(body);
    };
    if (!url.pathname.startsWith(this.prefix) || !path.startsWith("/debug/informer/")) return send(404, "text/plain", "404\n");
    const name = path.slice("/debug/informer/".length) || "index.html";
    if (!name.startsWith("v1/")) {
      try {
        return send(200, TYPES[name.split(".").pop()] ?? "text/plain", await readFile(`${this.folder}/${name}`));
      } catch {
        return send(404, "text/plain", "404\n");
      }
    }
    if (this.token && request.headers.authorization !== `Bearer ${this.token}`) {
      return send(401, "text/plain", "401 unauthorized: a bearer token of the cluster is required\n");
    }
    if (name.startsWith("v1/actions/")) {
      if (request.headers["x-informer-token"] !== this.actions) return send(403, "text/plain", "403: the header X-Informer-Token is missing or wrong\n");
      let body = "";
      for await (const chunk of request) body += chunk;
      (this.acted ??= []).push({ method: request.method, action: name.slice(11), body: JSON.parse(body) });
      if (name.endsWith("drop")) return send(409, "text/plain", "409: drop: a controller uses the informer\n");
      return send(200, "application/json", JSON.stringify({ message: `${name.slice(11)} done` }));
    }
    if (name === "v1/snapshot") return send(200, "application/json", JSON.stringify(this.snapshot()));
    if (name === "v1/history") {
      const key = url.searchParams.get("key");
      const of = (number, ago, ...causes) => reconcile(number, ago, { request: key, controller: "website", ...(causes.length > 0 && { causes }) });
      const known = key !== "default/unknown";
      const controllers = known ? [{ controller: "website", queued: { ageSeconds: 3.2, causes: ["retry of failure 3"], omitted: 0 }, running: [],
        reconciles: [of(22, 92), of(24, 61), of(23, 44.5), of(46, 12.1, "retry of failure 1"), of(69, 3.4, "retry of failure 2")] }] : [];
      return send(200, "application/json", JSON.stringify({ version: 1, key, controllers }));
    }
    if (name === "v1/objects" || name === "v1/object") {
      const [status, body] = this.readObjects(name, url.searchParams);
      return send(status, status === 200 ? "application/json" : "text/plain", body);
    }
    if (name === "v1/targets") return send(200, "application/json", JSON.stringify({ targets: [] }));
    if (name !== "v1/events") return send(404, "text/plain", "404\n");
    response.writeHead(200, { "content-type": "text/event-stream", "content-security-policy": POLICY });
    response.write("retry: 1000\n\n");
    // Like the server, the mock sends at most 2,000 reconciles in an event.
    for (let left = this.backlog; left > 0 || left === this.backlog; left -= 2000) {
      response.write(this.event(Math.min(left, 2000), true));
      await new Promise(setImmediate);
      if (left === 0) break;
    }
    const timer = setInterval(() => response.write(this.event(this.perSecond, false)), this.period);
    response.on("close", () => clearInterval(timer));
  }

  async start(port = 0) {
    this.server = createServer((request, response) => void this.respond(request, response));
    await new Promise((resolve) => this.server.listen(port, "127.0.0.1", resolve));
    this.port = this.server.address().port;
    return `http://127.0.0.1:${this.port}${this.prefix}/debug/informer/`;
  }

  async stop() {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }
}

/** The proxy of `informer console` with several targets: mocks by their names. A mock with an error in `down` is unreachable. */
export class MockProxy extends Mock {
  constructor(targets, options = {}) {
    super(options);
    this.targets = Object.entries(targets);
  }

  async respond(request, response) {
    const path = new URL(request.url, "http://localhost").pathname;
    const rest = path.split("/debug/informer/v1/targets")[1];
    if (rest === undefined && path.includes("/v1/")) {
      response.writeHead(404, { "content-type": "text/plain" });
      return response.end("404\n");
    }
    if (rest === undefined) return super.respond(request, response);
    if (rest === "") {
      response.writeHead(200, { "content-type": "application/json", "content-security-policy": POLICY });
      return response.end(JSON.stringify({ targets: this.targets.map(([name]) => ({ name })) }));
    }
    if (rest === "/events") return this.events(response);
    const number = Number(rest.split("/")[1]);
    const [target, mock] = this.targets[number];
    if (mock.down) {
      response.writeHead(502, { "content-type": "text/plain" });
      return response.end(`502: request to the program ${target} failed: ${mock.down}\n`);
    }
    request.url = request.url.replace(/^.*\/v1\/targets\/\d+/, "/debug/informer/v1");
    return mock.respond(request, response);
  }

  events(response) {
    response.writeHead(200, { "content-type": "text/event-stream", "content-security-policy": POLICY });
    const send = (first) => this.targets.forEach(([, mock], target) => {
      const data = mock.down ? { error: mock.down } : { snapshot: JSON.parse(mock.event(first ? mock.backlog : mock.perSecond, first).split("data: ")[1]) };
      response.write(`event: target\ndata: ${JSON.stringify({ target, ...data })}\n\n`);
    });
    send(true);
    const timer = setInterval(() => send(false), this.period);
    response.on("close", () => clearInterval(timer));
  }
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  console.log(await new Mock({ objects: true, ...(process.argv[2] && { folder: process.argv[2] }) }).start(Number(process.argv[3] ?? 8082)));
}
