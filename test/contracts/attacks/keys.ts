/** Credentials that resemble a valid key. */
import { expect, it } from 'vitest'
import { attackKeys, chat, rawRequest, sendRaw, type AttackWorld } from './attack-fixture.ts'

const { client, admin, engine } = attackKeys
const base64 = Buffer.from(`client:${client}`).toString('base64')

/** Header lines without a valid client key. */
const NO_CLIENT: Readonly<Record<string, string>> = {
  'no key': '',
  'an empty key': 'authorization: Bearer \r\n',
  'a scheme alone': 'authorization: Bearer\r\n',
  'a key without a scheme': `authorization: ${client}\r\n`,
  'the beginning of a key': `authorization: Bearer ${client.slice(0, -1)}\r\n`,
  'the end of a key': `authorization: Bearer ${client.slice(1)}\r\n`,
  'a key and more': `authorization: Bearer ${client}1\r\n`,
  'a key in capitals': `authorization: Bearer ${client.toUpperCase()}\r\n`,
  'a key in quotes': `authorization: Bearer "${client}"\r\n`,
  'a key twice in one header': `authorization: Bearer ${client}, Bearer ${client}\r\n`,
  'a key after a comma': `authorization: Bearer nope, Bearer ${client}\r\n`,
  'a good and a bad header': `authorization: Bearer ${client}\r\nauthorization: Bearer nope\r\n`,
  'a bad and a good header': `authorization: Bearer nope\r\nauthorization: Bearer ${client}\r\n`,
  'two equal headers': `authorization: Bearer ${client}\r\nauthorization: Bearer ${client}\r\n`,
  Basic: `authorization: Basic ${base64}\r\n`,
  Token: `authorization: Token ${client}\r\n`,
  'two blanks inside the key': `authorization: Bearer ${client.slice(0, 6)}  ${client.slice(6)}\r\n`,
  'an escaped key': `authorization: Bearer ${encodeURIComponent(`${client}/`)}\r\n`,
  'a byte behind the key': `authorization: Bearer ${client}\xa0\r\n`,
  'a cookie': `cookie: authorization=Bearer ${client}; key=${client}\r\n`,
  'proxy-authorization': `proxy-authorization: Bearer ${client}\r\n`,
  'x-api-key': `x-api-key: ${client}\r\n`,
  'api-key': `api-key: ${client}\r\n`,
  'x-authorization': `x-authorization: Bearer ${client}\r\n`,
  'an underscore': `x_authorization: Bearer ${client}\r\nauthorization_: Bearer ${client}\r\n`,
  'the admin key': `authorization: Bearer ${admin}\r\n`,
  'the engine’s key': `authorization: Bearer ${engine}\r\n`,
  'a name of every object': 'authorization: Bearer __proto__\r\n',
}

const ADMIN_PATHS: readonly string[] = [
  '/v1/firstlight/fleet',
  '/v1/firstlight/requests/x',
  '/v1/firstlight/decisions/x',
  '/v1/firstlight/digest',
  '/metrics',
]

export function keys(world: () => AttackWorld): void {
  it.each(Object.entries(NO_CLIENT))('%s opens no chat', async (_name, lines) => {
    const { engine: attacked, table } = world()
    attacked.calls.length = 0
    for (const host of table.hosts) {
      const { status, text } = await sendRaw(world(), rawRequest(host, chat(), { headers: lines }))
      expect([400, 401]).toContain(status)
      expect(text).not.toContain(client)
    }
    expect(attacked.calls).toEqual([])
  })

  it.each([`?key=${client}`, `?api_key=${client}`, `?authorization=Bearer%20${client}`])(
    'a key in the query (%s) opens no chat',
    async (query) => {
      const { table } = world()
      for (const host of table.hosts) {
        const { status } = await sendRaw(
          world(),
          rawRequest(host, chat(), { headers: '', path: `/v1/chat/completions${query}` }),
        )
        expect(status).toBe(401)
      }
    },
  )

  it.each(ADMIN_PATHS)('%s opens to no client, engine or stranger', async (path) => {
    for (const key of [null, client, engine, `${admin}x`, admin.slice(0, -1), admin.toUpperCase()]) {
      const headers: Record<string, string> = key === null ? {} : { authorization: `Bearer ${key}` }
      const response = await fetch(world().gateway.url + path, { headers })
      const text = await response.text()
      // `digest` has keys of its own; a client's key is valid there but forbidden.
      expect(path.endsWith('digest') ? [401, 403, 404] : [401]).toContain(response.status)
      expect(text).not.toMatch(/127\.0\.0\.1|secret/)
    }
  })

  it.each([`client`, `engine`, `admin`] as const)(
    'reports of TTFT open without a token to the admin alone (%s)',
    async (name) => {
      const headers = { authorization: `Bearer ${attackKeys[name]}` }
      const body = JSON.stringify({ role: 'pd', request_id: 'x', prefill_queue_time_ms: 1 })
      const reports = `${world().gateway.url}/ttft_report`
      const statuses = []
      for (const shown of [headers, {}] as Record<string, string>[]) {
        const posted = await fetch(reports, { method: 'POST', headers: shown, body })
        const read = await fetch(`${reports}/x`, { headers: shown })
        statuses.push(posted.status, read.status)
        await Promise.all([posted.text(), read.text()])
      }
      expect(statuses).toEqual(name === 'admin' ? [200, 200, 401, 401] : [401, 401, 401, 401])
    },
  )

  it('no header with a credential of the client reaches an engine, and the engine’s own does', async () => {
    const { engine: attacked, table } = world()
    attacked.calls.length = 0
    const lines = `authorization: Bearer ${client}\r\ncookie: a=${client}\r\nx-api-key: ${client}\r\napi-key: ${client}\r\nproxy-authorization: Bearer ${client}\r\n`
    for (const host of table.hosts)
      expect((await sendRaw(world(), rawRequest(host, chat(), { headers: lines }))).status).toBe(200)
    for (const { head } of attacked.calls) {
      expect(head).not.toContain(client)
      expect(head).toMatch(new RegExp(`^authorization: Bearer ${engine}$`, 'im'))
    }
  })
}
