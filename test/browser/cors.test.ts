/** `cors` in a browser: pages of three origins, a gateway with keys and one without. */
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { FakeEngine } from '../kit/fake-engine.ts'
import { startNodeGateway, type NodeGateway } from '../kit/node-gateway.ts'
import { openBrowser } from './world.ts'

const key = 'a-key-of-this-test'
let browser: Browser
let fleet: RunningFleet
let pages: FakeEngine
let locked: NodeGateway
let open: NodeGateway
/** An allowed page of another site, and a page of the gateways' host at a port that is not allowed. */
let friend: string
let stranger: string

beforeAll(async () => {
  pages = await FakeEngine.open({
    '*': { headers: { 'content-type': 'text/html' }, body: '<!doctype html><title>page</title>' },
  })
  const { port } = pages
  friend = `http://localhost:${port}`
  stranger = `http://127.0.0.1:${port}`
  fleet = await startFleet({ engines: [{ id: 'e' }], model: 'sim' })
  const document = {
    cors: { origins: [friend] },
    clusters: [{ id: 'c', pools: [{ model: 'sim', engines: [{ id: 'e', url: fleet.urls[0] }] }] }],
  }
  locked = await startNodeGateway({ ...document, keys: [{ name: 'k', secret: key }], admin: { secret: 'admin-key' } })
  open = await startNodeGateway(document)
  browser = await openBrowser()
}, 60_000)

afterAll(async () => {
  await browser.close()
  await Promise.all([locked.close(), open.close()])
  await fleet.close()
  await pages.close()
})

interface ReadAnswer {
  readonly status: number
  readonly text: string
  readonly headers: readonly string[]
}

/** What a script of the page can read; null: the browser blocks it. */
async function fetchFrom(
  page: string,
  url: string,
  init: { readonly method: string; readonly headers: Readonly<Record<string, string>>; readonly body?: string },
): Promise<ReadAnswer | null> {
  const context = await browser.newContext()
  const tab = await context.newPage()
  await tab.goto(page)
  const script = `fetch(${JSON.stringify(url)}, ${JSON.stringify(init)}).then(async (response) => ({ status: response.status, text: await response.text(), headers: [...response.headers.keys()] }), () => null)`
  const read = await tab.evaluate<ReadAnswer | null>(script)
  await context.close()
  return read
}

/** Request of OpenAI's SDK in a browser. */
const chat = (secret: string, more: object = {}) => ({
  method: 'POST',
  headers: {
    authorization: `Bearer ${secret}`,
    'content-type': 'application/json',
    'x-stainless-lang': 'js',
    'x-stainless-retry-count': '0',
    'x-session-id': 's',
  },
  body: JSON.stringify({
    model: 'sim',
    stream: true,
    max_tokens: 2,
    messages: [{ role: 'user', content: 'Hello' }],
    ...more,
  }),
})
const gets = { method: 'GET', headers: { authorization: 'Bearer admin-key' } }

it('an allowed page reads streams, errors and the gateway’s headers', async () => {
  const stream = await fetchFrom(friend, `${locked.url}/v1/chat/completions`, chat(key))
  expect(stream).toMatchObject({ status: 200, text: expect.stringContaining('data: [DONE]') })
  expect(stream!.headers).toEqual(
    expect.arrayContaining(['x-request-id', 'server-timing', 'x-firstlight-engine', 'x-firstlight-decision']),
  )
  const refused = await fetchFrom(friend, `${locked.url}/v1/chat/completions`, chat('wrong'))
  expect(refused).toMatchObject({
    status: 401,
    text: expect.stringContaining('invalid_api_key'),
    headers: expect.arrayContaining(['x-should-retry']),
  })
  expect(await fetchFrom(friend, `${locked.url}/chat/completions`, chat(key))).toMatchObject({
    status: 404,
    text: expect.stringContaining('unknown_url'),
  })
  expect(
    await fetchFrom(friend, `${locked.url}/v1/responses/resp_1`, {
      ...gets,
      method: 'DELETE',
      headers: { authorization: `Bearer ${key}` },
    }),
  ).toMatchObject({ status: 404, text: expect.stringContaining('resp_1') })
})

it('an allowed page uses a gateway without keys from another site', async () => {
  expect(await fetchFrom(friend, `${open.url}/v1/chat/completions`, chat('any'))).toMatchObject({
    status: 200,
    text: expect.stringContaining('data: [DONE]'),
  })
})

it('an allowed page cannot read the admin API', async () => {
  for (const path of ['/v1/firstlight/fleet', '/metrics', '/ready', '/'])
    expect([path, await fetchFrom(friend, locked.url + path, gets)]).toEqual([path, null])
})

it('a page of another origin reads no response', async () => {
  expect(await fetchFrom(stranger, `${locked.url}/v1/chat/completions`, chat(key))).toBeNull()
  expect(
    await fetchFrom(stranger, `${locked.url}/v1/models`, {
      method: 'GET',
      headers: { authorization: `Bearer ${key}` },
    }),
  ).toBeNull()
  expect(await fetchFrom(stranger, `${open.url}/health`, { method: 'GET', headers: {} })).toBeNull()
})
