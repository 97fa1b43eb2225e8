/** Requests of an edge to a region, and digests that the region returns. */
import { describe, expect, it } from 'vitest'
import { createGateway } from '../../src/gateway.ts'
import { configOf, openRecordingPorts, poster } from '../kit/recording-ports.ts'

const regional = { id: 'a', gateway: { url: 'https://paris.test', models: [{ model: 'qwen' }] } }

describe('a region', () => {
  it('a region receives header-safe text, whatever the request contains', async () => {
    const world = openRecordingPorts()
    const post = poster(createGateway(configOf({ clusters: [regional] }), world.ports), world)
    for (const session of ['plain', '日本 é', '\u007f\u0000\r\n', '\ud800', '😀"\\']) {
      expect(
        (await post('/v1/chat/completions', { model: 'qwen', messages: [], firstlight: { session } })).status,
      ).toBe(200)
      const { headers } = world.sent.at(-1)!.request
      const options = headers[headers.indexOf('x-firstlight-options') + 1]!
      expect(options).toMatch(/^[ -~]+$/)
      expect(JSON.parse(options)).toEqual({ session })
    }
  })

  it('a region receives sessions apart for each key of the edge, which it cannot see', async () => {
    const world = openRecordingPorts()
    const keys = ['one', 'two'].map((name) => ({ name, secret: `secret-of-${name}` }))
    const post = poster(createGateway(configOf({ clusters: [regional], keys }), world.ports), world)
    const sessions: unknown[] = []
    for (const { secret } of keys) {
      const headers = { authorization: `Bearer ${secret}`, 'x-claude-code-session-id': 's' }
      expect((await post('/v1/chat/completions', { model: 'qwen', messages: [] }, headers)).status).toBe(200)
      const { headers: sent } = world.sent.at(-1)!.request
      sessions.push(JSON.parse(sent[sent.indexOf('x-firstlight-options') + 1]!))
    }
    expect(sessions).toEqual([{ session: 'one:s' }, { session: 'two:s' }])
  })
})
