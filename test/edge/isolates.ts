/** Isolates of one Worker in front of regions, all in one workerd, with simulated engines behind the regions. */
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { startWorkers, type WorkerSpec } from '../../scripts/edge-workers.ts'

export const MODEL = 'sim'
export const ADMIN = { authorization: 'Bearer admin' }

export interface Isolates {
  /** Base URL of each isolate of the front. */
  readonly urls: readonly string[]
  readonly fleet: RunningFleet
  close(): Promise<void>
}

export interface IsolatesOptions {
  readonly isolates: number
  readonly regions: readonly string[]
  /** Further regions by URL. */
  readonly plain?: Readonly<Record<string, string>>
  /** Fields of each region's `gateway`, and of its model. */
  readonly gateway?: Readonly<Record<string, unknown>>
  readonly model?: Readonly<Record<string, unknown>>
  /** Bundle of an isolate, or of `objects`. Absent: the built one. */
  readonly scriptOf?: (name: string) => string | undefined
}

const EDGE_KEY = 'edge-key'
/** Two, because failures of a single client do not open a circuit. */
const CLIENTS = ['one', 'two']

/** Starts `isolates` fronts named iso0 … in front of `regions`. All fronts use the objects of the Worker `objects`. */
export async function startIsolates(options: IsolatesOptions): Promise<Isolates> {
  const { isolates, regions, scriptOf = () => undefined } = options
  const fleet = await startFleet({ engines: regions.length, model: MODEL })
  const front = JSON.stringify(frontDocument(options))
  const services = Object.fromEntries(regions.map((id) => [bindingOf(id), `region-${id}`]))
  const script = (name: string) => {
    const text = scriptOf(name)
    return text === undefined ? {} : { script: text }
  }
  const fronts = Array.from({ length: isolates }, (_, at): WorkerSpec => ({
    name: `iso${at}`,
    bindings: { FIRSTLIGHT_CONFIG: front },
    services,
    objectsOf: 'objects',
    port: 0,
    ...script(`iso${at}`),
  }))
  const specs: WorkerSpec[] = [
    { name: 'objects', bindings: { FIRSTLIGHT_CONFIG: front }, services, ...script('objects') },
    ...fronts,
    ...regions.map((id, at) => ({
      name: `region-${id}`,
      bindings: { FIRSTLIGHT_CONFIG: JSON.stringify(regionDocument(id, fleet.urls[at]!)) },
    })),
  ]
  const running = await startWorkers(specs, { quiet: true })
  const close = async () => {
    await running.stop()
    await fleet.close()
  }
  return { urls: fronts.map(({ name }) => running.urls[name]!), fleet, close }
}

const bindingOf = (region: string): string => `REGION_${region.toUpperCase()}`

/** Configuration of a front of regions. */
export function frontDocument({ regions, plain = {}, gateway = {}, model = {} }: IsolatesOptions) {
  const common = { key: EDGE_KEY, models: [{ model: MODEL, ...model }], ...gateway }
  const bound = regions.map((id) => ({
    id,
    gateway: { url: `http://${id}.invalid`, binding: bindingOf(id), ...common },
  }))
  const others = Object.entries(plain).map(([id, url]) => ({ id, gateway: { url, ...common } }))
  return {
    version: 1,
    keys: CLIENTS.map((name) => ({ name, secret: name })),
    admin: { secret: 'admin' },
    log: { level: 'silent' },
    clusters: [...bound, ...others],
  }
}

/** Configuration of a region with one engine. */
export const regionDocument = (id: string, engine: string) => ({
  version: 1,
  keys: [{ name: 'edge', secret: EDGE_KEY, edge: true, allow_overrides: true }],
  admin: { secret: 'admin' },
  log: { level: 'silent' },
  clusters: [{ id, pools: [{ model: MODEL, engines: [{ id: `${id}-0`, url: engine }] }] }],
})

let sent = 0

/** Sends a short chat request; resolves with the response after its body has been read. */
export async function chat(url: string, text: string): Promise<{ readonly status: number; readonly headers: Headers }> {
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${CLIENTS[sent++ % CLIENTS.length]}` },
    body: JSON.stringify({ model: MODEL, max_tokens: 2, messages: [{ role: 'user', content: text }] }),
  })
  await response.text()
  return { status: response.status, headers: response.headers }
}

/** GET of an admin route, as JSON; null for 404. */
export async function admin<Answer>(url: string, path: string): Promise<Answer | null> {
  const response = await fetch(`${url}${path}`, { headers: ADMIN })
  if (response.status === 404) {
    await response.text()
    return null
  }
  return (await response.json()) as Answer
}
