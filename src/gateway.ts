import { createApp } from './api/app.ts'
import { Catalog } from './api/catalog.ts'
import { configuredPorts } from './api/configured.ts'
import type { Door } from './api/door.ts'
import { HeldResponses } from './api/held.ts'
import { Doorkeeper } from './api/keys.ts'
import { Meters, type VocabularyOf } from './api/prompt.ts'
import { RecentRequests } from './api/recent.ts'
import type { Config } from './config.ts'
import { forward } from './origin/forward.ts'
import type { Digests } from './origin/place.ts'
import type { Ports, RequestScope } from './ports.ts'

/** The product as one fetch function. */
export interface Gateway {
  fetch(request: Request, scope: RequestScope): Promise<Response>
  /** Scrapes every engine once and tells the cluster objects. Timers and alarms call it. */
  probe(): Promise<void>
  /** From now on `/ready` says no and new requests are refused; running ones go on. */
  drain(): void
}

export interface GatewayOptions {
  /** Vocabularies the entry has loaded; absent: prompts are measured in bytes. */
  readonly vocabularyOf?: VocabularyOf
}

/** Requests the admin surface can still say something about. */
const RECENT_REQUESTS = 1000

export function createGateway(config: Config, outside: Ports, options: GatewayOptions = {}): Gateway {
  const ports = configuredPorts(outside, config)
  const catalog = new Catalog(config)
  const digests: Digests = { order: (exchange) => exchange.routes, latest: () => null, fallback: () => null }
  const door: Door = {
    config,
    ports,
    catalog,
    keeper: new Doorkeeper(config),
    held: new HeldResponses(config.limits.responseIds),
    recent: new RecentRequests(RECENT_REQUESTS),
    meters: new Meters(() => ports.now(), options.vocabularyOf ?? (() => null)),
    forward: (exchange) => forward(exchange, ports, digests),
    startedAt: ports.now(),
    draining: false,
  }
  const app = createApp(door)
  return {
    fetch: async (request, scope) => app.fetch(request, scope),
    probe: async () => undefined,
    drain: () => {
      door.draining = true
    },
  }
}
