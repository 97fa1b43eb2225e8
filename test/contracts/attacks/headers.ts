/**
 * Request headers that an engine, or a proxy in front of it, may read as framing, routing, a condition or a credential.
 */
import { expect, it } from 'vitest'
import { chat, rawRequest, sendRaw, keyLine, type AttackWorld } from './attack-fixture.ts'

const VALUE = 'attack-header-value'

/** Names that are removed from client requests. */
const REMOVED: readonly string[] = [
  'transfer_encoding',
  'content_length',
  'Content_Length',
  'x_forwarded_for',
  'x_data_parallel_rank',
  'x_firstlight_options',
  'x_request_id',
  'x_api_key',
  'x-original-url',
  'x_original_url',
  'x-rewrite-url',
  'x-original-host',
  'x-http-method',
  'x-http-method-override',
  'x-method-override',
  'x-forwarded',
  'x-client-ip',
  'range',
  'if-range',
  'if-match',
  'if-none-match',
  'if-modified-since',
  'if-unmodified-since',
  'x-goog-api-key',
  'api-key',
  'api_key',
  'x-gateway-inference-objective',
]

export function headers(world: () => AttackWorld): void {
  it.each(REMOVED)('%s reaches no engine', async (name) => {
    const { engine, table } = world()
    engine.calls.length = 0
    for (const host of table.hosts) {
      const lines = `${keyLine()}${name}: ${VALUE}\r\n`
      const { status } = await sendRaw(world(), rawRequest(host, chat(), { headers: lines }))
      expect([200, 400]).toContain(status)
    }
    for (const { head } of engine.calls) expect(head).not.toContain(VALUE)
  })

  it('other headers with an underscore pass', async () => {
    const { engine, table } = world()
    engine.calls.length = 0
    const lines = `${keyLine()}x_user_label: ${VALUE}\r\n`
    await sendRaw(world(), rawRequest(table.hosts[0]!, chat(), { headers: lines }))
    expect(engine.calls.map(({ head }) => head)).toEqual([expect.stringContaining(`x_user_label: ${VALUE}`)])
  })
}
