import { createApp } from './api/app.ts'
import { BodyMemory, countIn } from './api/body-memory.ts'
import { ModelRegistry } from './api/model-registry.ts'
import type { GatewayContext } from './api/context.ts'
import { answerWorkerQuery, type WorkerQuery, type WorkerGroup } from './api/worker-group.ts'
import { ResponseAffinity } from './api/response-affinity.ts'
import type { HttpRequest } from './api/request-context.ts'
import { Authenticator } from './api/auth.ts'
import { blockingFingerprints } from './api/region-digest.ts'
import { PromptMeasurers, type VocabularyOf } from './api/prompt-measurers.ts'
import { RequestHistory } from './api/request-log.ts'
import type { Config } from './config.ts'
import { DigestCache } from './origin/digest-cache.ts'
import { forward } from './origin/forward.ts'
import { CacheLookups } from './origin/lmcache/lookups.ts'
import { FleetProbe } from './origin/probe.ts'
import type { AssetFiles, StoredResponses, Ports, RequestScope } from './ports.ts'
import { Telemetry } from './telemetry/telemetry.ts'

/** The product as one fetch function. */
export interface Gateway {
  /** Answers a request: a web `Request`, or a platform's own view of one. Never rejects. */
  fetch(request: HttpRequest, scope: RequestScope): Promise<Response>
  /** Probes the engines that are due and tells the cluster objects. A timer calls it, about once a second. */
  probe(): Promise<void>
  /** What a fellow of `GatewayOptions.shared` asks. */
  answer(question: WorkerQuery): Promise<unknown>
  /** From now on `/ready` says no and new requests are refused; running ones go on. */
  drain(): void
  /** Another one takes requests from now on: what runs here goes on, and who watches comes back to that one. */
  supersede(): void
  readonly kept: CarriedState
}

/** What a gateway hands on to the next one of its process, which has another configuration. */
export interface CarriedState {
  readonly held: StoredResponses
  readonly recent: RequestHistory
  readonly telemetry: Telemetry
  readonly measurers: PromptMeasurers
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
  readonly shared?: WorkerGroup
  /** Of the one before. Its telemetry was told of these `traces`. */
  readonly kept?: CarriedState
}

/** Requests the admin surface can still say something about. */
const RECENT_REQUESTS = 1000

export function createGateway(config: Config, ports: Ports, options: GatewayOptions = {}): Gateway {
  const catalog = new ModelRegistry(config)
  const { shared = null, kept } = options
  const measurers = new PromptMeasurers(() => ports.now(), options.vocabularyOf ?? (() => null), kept?.measurers)
  const fingerprintOf = blockingFingerprints(measurers)
  const digests = new DigestCache({ ports, via: config.via, fingerprintOf })
  const dueAt = kept?.dueAt ?? new Map()
  const prober = shared?.prober ?? new FleetProbe(catalog.routes, ports, { digests, dueAt })
  const bodyMemory = kept?.bodyMemory ?? new BodyMemory(config.limits, ports.bodyCount ?? countIn(new Int32Array(1)))
  bodyMemory.adopt(config.limits)
  const context: GatewayContext = {
    config,
    ports,
    catalog,
    authenticator: new Authenticator(config),
    held: kept?.held ?? shared?.held ?? ports.held ?? new ResponseAffinity(config.limits.responseIds),
    recent: kept?.recent ?? new RequestHistory(RECENT_REQUESTS),
    shared,
    digests,
    fingerprintOf,
    measurers,
    bodyMemory,
    lookups: new CacheLookups(ports),
    forward: (exchange) => forward(exchange, ports, digests, (route, engine) => prober.suspect(route, engine)),
    startedAt: kept?.startedAt ?? shared?.startedAt ?? ports.now(),
    telemetry: kept?.telemetry ?? new Telemetry(ports, config.traces, ports.newId()),
    assets: options.assets ?? (async () => null),
    draining: false,
    retired: false,
  }
  const app = createApp(context)
  return {
    // Hono reads `method` and `url` only; everything else of a request is read by our handlers.
    fetch: async (request, scope) => app.fetch(request as Request, scope),
    probe: () => prober.round(),
    answer: (question) => answerWorkerQuery(context, question),
    drain: () => {
      context.draining = true
    },
    supersede: () => {
      context.retired = true
    },
    kept: { ...context, dueAt },
  }
}
