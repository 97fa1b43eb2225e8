/** Recorded traffic between LMCache servers and their coordinator, for tests without them. */
import { send } from '../http.ts'
import { chunkTokens } from '../lmcache-servers.ts'
import { recordAll } from '../recorder.ts'
import { check } from '../row.ts'
import type { Lab, Row } from '../row.ts'
import { encodeBody, writeVectors } from '../vector.ts'
import type { Exchange, VectorFile } from '../vector.ts'
import { direct } from './asks.ts'
import { completion, lookupOf, promptTokens, sides, untilHeld } from './lmcache.ts'

export const lmcacheRecording: Row = {
  name: 'record-lmcache',
  says: 'LMCache servers register, report stored chunks, and are found by token ids, in the formats of the gateway.',
  run: async (lab) => recording(lab),
}

/** The same in each recording, and in no other row. */
const recorded = (side: number): number[] =>
  Array.from({ length: promptTokens }, (_, at) => 10 + ((at * 11 + side * 700) % 1900))

async function recording(lab: Lab): Promise<string> {
  for (const side of sides) await lab.engine(side)
  const { reports, coordinatorUrl } = await lab.lmcache()
  reports.target = coordinatorUrl
  const prompts = { left: recorded(1), right: recorded(2) }
  for (const side of sides) await send(direct(await lab.engine(side), completion(prompts[side])))
  await untilHeld(coordinatorUrl, prompts)
  const servers = reports.exchanges.map(({ method, path, request, status, response }): Exchange => ({
    name: '',
    request: { method: method as 'GET', path, ...(request === '' ? {} : { json: JSON.parse(request) }) },
    response: { status, headers: {}, ...encodeBody(response, 'application/json') },
  }))
  const first = (path: RegExp, holds: (exchange: Exchange) => boolean = () => true) =>
    servers.find((exchange) => path.test(exchange.request.path) && holds(exchange))
  const stores = servers.filter(
    ({ request }) => request.path === '/events' && JSON.stringify(request.json).includes('"event_type":"store"'),
  )
  check(stores.length >= 2, `${stores.length} posts of stored chunks`)
  const named = [
    ...sides.map((side) => ({
      ...first(/^\/instances$/, ({ request }) => JSON.stringify(request.json).includes(`node-${side}`))!,
      name: `register-${side}`,
    })),
    ...[first(/heartbeat$/)].flatMap((exchange) =>
      exchange === undefined ? [] : [{ ...exchange, name: 'heartbeat' }],
    ),
    ...stores.map((exchange, at) => ({ ...exchange, name: `events-${at + 1}` })),
  ]
  const exchanges = await recordAll(coordinatorUrl, {
    healthz: { method: 'GET', path: '/healthz' },
    instances: { method: 'GET', path: '/instances' },
    'lookup-left': { method: 'POST', path: '/directory/lookup', json: lookupOf(prompts.left) },
    'lookup-right-longer': {
      method: 'POST',
      path: '/directory/lookup',
      json: lookupOf([...prompts.right, ...prompts.left]),
    },
    'lookup-nothing': { method: 'POST', path: '/directory/lookup', json: lookupOf(recorded(3)) },
    'lookup-short': { method: 'POST', path: '/directory/lookup', json: lookupOf([1, 2, 3]) },
    'lookup-empty': { method: 'POST', path: '/directory/lookup', json: {} },
    'heartbeat-unknown': { method: 'PUT', path: '/instances/nobody/heartbeat' },
    'leave-unknown': { method: 'DELETE', path: '/instances/nobody' },
  })
  const about =
    'Messages of two LMCache servers to their coordinator with its answers, then its answers about them. Two ' +
    'engines, prompts of 1100 tokens.'
  const file: VectorFile = {
    engine: {
      name: 'lmcache',
      version: lab.environment.versions.lmcache ?? 'unknown',
      flags: ['--chunk-size', String(chunkTokens), '--coordinator-event-reporting'],
    },
    about,
    normalised: ['ports and times are those of one run'],
    exchanges: [...named, ...exchanges],
  }
  return (
    `${named.map(({ name }) => name).join(' ')}; ` +
    `${exchanges.map(({ name, response }) => `${name} ${response.status}`).join(', ')}; ` +
    `${lab.writeVector('lmcache.json', steady(writeVectors(file)))}`
  )
}

/** Replaces ports and times of one run by fixed ones. */
function steady(text: string): string {
  return text
    .replaceAll(/"(http_port|mq_port)":\d+/g, '"$1":8080')
    .replaceAll(/"(registration_time|ts)":[\d.]+/g, '"$1":0')
    .replaceAll(/"incarnation":\d+/g, '"incarnation":1795258323')
    .replaceAll(/"authorization":"[^"]*",?/g, '')
}
