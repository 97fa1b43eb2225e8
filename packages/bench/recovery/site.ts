/** A simulated fleet with a gateway in front of it, and the times at which client requests were placed on each engine. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startFleet, type RunningFleet } from '../../simulator/src/node/fleet-host.ts'
import { ChildGateway } from '../chaos/child-gateway.ts'
import { LogReader } from '../chaos/log.ts'
import type { Incoming } from '../../simulator/src/answer.ts'
import { startPeer } from '../peers/start-peer.ts'

export const ADMIN_KEY = 'recovery-admin-key-of-no-use-elsewhere'

/** What stands in front of the engines. */
interface Front {
  readonly url: string
  end(): Promise<void>
}

/** A client's request that an engine was asked to serve. */
export interface AttemptOnEngine {
  readonly engine: string
  readonly at: number
  /** Id of the client's request; null: unknown. */
  readonly id: string | null
}

/** Failures after which the engine has no record of the request. */
const UNPARSED = new Set(['connect', 'connect_timeout'])

class PlacementLog extends LogReader {
  readonly placed: AttemptOnEngine[] = []
  readonly events: { readonly event: string; readonly at: number; readonly engine: string }[] = []

  override read(text: string, name = ''): Readonly<Record<string, unknown>> | null {
    const line = super.read(text, name)
    const [at, event, engine] = [performance.now(), String(line?.['event']), String(line?.['engine'])]
    const id = String(line?.['id'])
    if (event === 'attempt_failed' && UNPARSED.has(String(line?.['failure']))) this.placed.push({ engine, at, id })
    if (event === 'engine_down' || event === 'engine_up') this.events.push({ event, at, engine })
    return line
  }
}

export interface SiteOptions {
  readonly engines: number
  /** Further keys of the document. */
  readonly document?: object
  readonly pool?: object
  /** Another gateway instead of Firstlight. */
  readonly peer?: { readonly name: string; readonly folder: string }
}

/** Firstlight tries engines itself, under other ids. Other gateways set ids of their own. */
const isOfClient = ({ path, headers }: Incoming, isPeer: boolean): boolean =>
  isPeer ? path === '/v1/chat/completions' : headers.get('x-request-id')?.startsWith('client-') === true

export class Site {
  readonly fleet: RunningFleet
  readonly gateway: Front
  readonly log: PlacementLog
  readonly #folder: string

  static async start({ engines, document = {}, pool = {}, peer }: SiteOptions): Promise<Site> {
    const fleet = await startFleet({ engines, profile: 'demo', keepRequests: 0 })
    const log = new PlacementLog()
    for (const { settings, log: requests } of fleet.engines) {
      const record = requests.record.bind(requests)
      requests.record = (incoming) => {
        record(incoming)
        if (!isOfClient(incoming, peer !== undefined)) return
        const id = peer === undefined ? (incoming.headers.get('x-request-id') ?? null) : null
        log.placed.push({ engine: settings.id, at: performance.now(), id })
      }
    }
    const folder = mkdtempSync(join(tmpdir(), 'firstlight-recovery-'))
    if (peer !== undefined) {
      const { name, folder: installed } = peer
      const { port, end } = await startPeer({ name, installed, engines: fleet.urls, work: folder, model: 'sim' })
      return new Site(fleet, { url: `http://127.0.0.1:${port}`, end }, { log, folder })
    }
    const gateway = await ChildGateway.start({
      name: 'gateway',
      file: join(folder, 'firstlight.yaml'),
      log,
      document: {
        admin: { secret: ADMIN_KEY },
        ...document,
        clusters: [
          {
            id: 'one',
            pools: [
              {
                model: 'sim',
                engines: fleet.engines.map(({ settings }, at) => ({ id: settings.id, url: fleet.urls[at] })),
                ...pool,
              },
            ],
          },
        ],
      },
    })
    return new Site(fleet, gateway, { log, folder })
  }

  private constructor(fleet: RunningFleet, gateway: Front, rest: { log: PlacementLog; folder: string }) {
    this.fleet = fleet
    this.gateway = gateway
    this.log = rest.log
    this.#folder = rest.folder
  }

  get url(): string {
    return this.gateway.url
  }

  async stop(): Promise<void> {
    await this.gateway.end()
    await this.fleet.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
