import { createApp, enginePosts, type Serve } from './api/app.ts'
import { BodyMemory, countIn } from './api/body-memory.ts'
import { Catalog } from './api/catalog.ts'
import type { Door } from './api/door.ts'
import { answerFellow, type FellowQuestion, type Shared } from './api/fellows.ts'
import { HeldResponses } from './api/held.ts'
import { split } from './api/incoming.ts'
import { Doorkeeper } from './api/keys.ts'
import { cutsOf } from './api/outlook.ts'
import { Meters, type VocabularyOf } from './api/prompt.ts'
import { RecentRequests } from './api/recent.ts'
import type { Config } from './config.ts'
import { DigestCache } from './origin/digests.ts'
import { forward } from './origin/forward.ts'
import { CacheLookups } from './origin/lmcache/lookups.ts'
import { FleetProbe } from './origin/probe.ts'
import type { AssetFiles, Holdings, Ports, RequestScope } from './ports.ts'
import { Telemetry } from './telemetry/telemetry.ts'

/** The product as one fetch function. */
export interface Gateway {
  fetch(request: Request, scope: RequestScope): Promise<Response>
  /** Path → what `fetch` does for a POST there, for a platform that has found the path and has no `Request` yet. */
  readonly posts: ReadonlyMap<string, Serve>
  /** Probes the engines that are due and tells the cluster objects. A timer calls it, about once a second. */
  probe(): Promise<void>
  /** What a fellow of `GatewayOptions.shared` asks. */
  answer(question: FellowQuestion): Promise<unknown>
  /** From now on `/ready` says no and new requests are refused; running ones go on. */
  drain(): void
  /** Another one takes requests from now on: what runs here goes on, and who watches comes back to that one. */
  retire(): void
  readonly kept: Kept
}

/** What a gateway hands on to the next one of its process, which has another configuration. */
export interface Kept {
  readonly held: Holdings
  readonly recent: RecentRequests
  readonly telemetry: Telemetry
  readonly meters: Meters
  readonly bodyMemory: BodyMemory
  /** Of its probe. */
  readonly dueAt: FleetProbe['dueAt']
  /** ms since the epoch. */
  readonly startedAt: number
}

export interface GatewayOptions {
  /** Vocabularies the entry has loaded; absent: prompts are measured in bytes. */
  readonly vocabularyOf?: VocabularyOf
  /** Files of the dashboard; absent: `/dashboard` says how to build them. */
  readonly assets?: AssetFiles
  /** Present where several gateways serve one address. */
  readonly shared?: Shared
  /** Of the one before. Its telemetry was told of these `traces`. */
  readonly kept?: Kept
}

/** Requests the admin surface can still say something about. */
const RECENT_REQUESTS = 1000

export function createGateway(config: Config, ports: Ports, options: GatewayOptions = {}): Gateway {
  const catalog = new Catalog(config)
  const { shared = null, kept } = options
  const meters = new Meters(() => ports.now(), options.vocabularyOf ?? (() => null), kept?.meters)
  const cutOf = cutsOf(meters)
  const digests = new DigestCache({ ports, via: config.via, cutOf })
  const dueAt = kept?.dueAt ?? new Map()
  const prober = shared?.prober ?? new FleetProbe(catalog.routes, ports, { digests, dueAt })
  const bodyMemory = kept?.bodyMemory ?? new BodyMemory(config.limits, ports.bodyCount ?? countIn(new Int32Array(1)))
  bodyMemory.adopt(config.limits)
  const door: Door = {
    config,
    ports,
    catalog,
    keeper: new Doorkeeper(config),
    held: kept?.held ?? shared?.held ?? ports.held ?? new HeldResponses(config.limits.responseIds),
    recent: kept?.recent ?? new RecentRequests(RECENT_REQUESTS),
    shared,
    digests,
    cutOf,
    meters,
    bodyMemory,
    lookups: new CacheLookups(ports),
    forward: (exchange) => forward(exchange, ports, digests, (route, engine) => prober.suspect(route, engine)),
    startedAt: kept?.startedAt ?? shared?.startedAt ?? ports.now(),
    telemetry: kept?.telemetry ?? new Telemetry(ports, config.traces, ports.newId()),
    assets: options.assets ?? (async () => null),
    draining: false,
    retired: false,
  }
  const posts = enginePosts(door)
  const app = createApp(door, posts)
  return {
    posts,
    fetch: async (request, scope) => {
      // What goes to engines comes first, and often: to be found by the app costs as much as to be read.
      const serve = request.method === 'POST' ? posts.get(split(request.url).path) : undefined
      return serve === undefined ? app.fetch(request, scope) : serve(request, scope)
    },
    probe: () => prober.round(),
    answer: (question) => answerFellow(door, question),
    drain: () => {
      door.draining = true
    },
    retire: () => {
      door.retired = true
    },
    kept: { ...door, dueAt },
  }
}
