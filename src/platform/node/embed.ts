/** The package's entry `firstlight/node`: a gateway inside another Node program, which keeps its own server. */
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { parseConfigText } from '../../config/parse.ts'
import { withIssuedKeys } from './issued-key-file.ts'
import { createGateway, type Gateway, type RouteGroup } from '../../gateway.ts'
import type { Log } from '../../ports/log.ts'
import type { RequestScope } from '../../ports/request-scope.ts'
import { vocabularyIn } from '../../vocabulary.ts'
import { Background } from './background.ts'
import { collecting, NodeBody } from './inbound/node-body.ts'
import { openLog } from './log.ts'
import { nodePorts } from './ports.ts'
import { probeForever } from './probe-forever.ts'
import { sha256 } from './load-config.ts'
import { diskAssets } from './dashboard-assets.ts'
import { vocabulariesIn } from './vocabulary-files.ts'

export type { RouteGroup } from '../../gateway.ts'
export { nodePorts, type NodePorts } from './ports.ts'

export interface EmbedOptions {
  /** Environment of `${NAME}` in the document. Default: `process.env`. */
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Receives log events. Default: JSON lines on standard output, at the level of the document. */
  readonly log?: Log
  /** Folder of relative vocabulary names. Default: the current one. */
  readonly folder?: string
}

/** Routes of a gateway in a program that has its own server. */
export interface EmbeddedRoutes {
  /** Request listener for `node:http`, Express, Connect or Fastify. Passes engine bytes to the socket directly. */
  readonly handler: (request: IncomingMessage, response: ServerResponse) => void
  /** Answers a web Request, as `app.mount` of Hono calls it. Never rejects. */
  readonly fetch: (request: Request) => Promise<Response>
}

/** A gateway without a listener. */
export interface EmbeddedGateway extends EmbeddedRoutes {
  /** The routes of these groups only, for a program that puts its own middleware in front of each group. */
  only(...groups: readonly RouteGroup[]): EmbeddedRoutes
  /** Refuses new requests, stops health checks, waits for the release of bookings, closes connections to engines. */
  close(): Promise<void>
}

/**
 * Opens a gateway for a configuration document (YAML or JSON text). `listen`, `workers`, `ttft.listen` and
 * `log.stats_interval_s` have no effect. Rejects with a VocabularyError, or with a ConfigError, also for keys that need
 * `firstlight serve`.
 */
export async function openGateway(document: string, options: EmbedOptions = {}): Promise<EmbeddedGateway> {
  const { env = process.env, folder = '.' } = options
  const config = parseConfigText(document, env, { defaultVersion: 1, defaultObserveShare: 1, listens: false, sha256 })
  const log = options.log ?? openLog(config.log.level, undefined, null, config.log.format)
  const vocabularies = await vocabulariesIn(folder, (opened) => opened)(config)
  const ports = nodePorts(config, log)
  const gateway = createGateway(config, withIssuedKeys(ports, config, folder), {
    assets: diskAssets(),
    vocabularyOf: vocabularyIn(vocabularies),
  })
  const background = new Background((error) => log.error('background_failed', { error }))
  const scopeOf = (client: HttpBindings | null): RequestScope => ({
    background: (work) => background.add(work),
    client,
    remoteAddress: client?.incoming.socket.remoteAddress ?? null,
  })
  const embedded = (fetch: Gateway['fetch']): EmbeddedRoutes => {
    const serve = (request: Request, client: HttpBindings): Promise<Response> =>
      fetch(collecting(request, new NodeBody(client.incoming)), scopeOf(client))
    return {
      handler: getRequestListener((request, client) => serve(request, client as HttpBindings)),
      fetch: (request) => fetch(request, scopeOf(null)),
    }
  }
  const stopProbing = probeForever(gateway, log)
  return {
    ...embedded(gateway.fetch),
    only: (...groups) => embedded(gateway.only(groups)),
    async close() {
      gateway.drain()
      stopProbing()
      await background.settled()
      await ports.close()
    },
  }
}
