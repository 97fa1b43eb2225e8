/** Engine endpoints that clients must not reach, in every spelling that some server normalises. */
import { expect, it } from 'vitest'
import { chat, keyLine, sendRaw, type AttackWorld } from './attack-fixture.ts'

const ENGINE_ONLY: readonly string[] = [
  '/sleep',
  '/wake_up',
  '/is_sleeping',
  '/collective_rpc',
  '/v1/load_lora_adapter',
  '/v1/unload_lora_adapter',
  '/reset_prefix_cache',
  '/reset_mm_cache',
  '/reset_encoder_cache',
  '/scale_elastic_ep',
  '/is_scaling_elastic_ep',
  '/start_profile',
  '/stop_profile',
  '/server_info',
  '/get_world_size',
  '/pause',
  '/resume',
  '/init_weight_transfer_engine',
  '/update_weights',
  '/flush_cache',
  '/docs',
  '/load',
  '/abort_request',
]

/** Spellings of `/sleep` after paths of the gateway. */
const SPELLINGS: readonly string[] = [
  '/v1/../sleep',
  '/v1/chat/completions/../../../sleep',
  '/v1/chat/completions/..%2f..%2f..%2fsleep',
  '/v1/%2e%2e/sleep',
  '/v1/%2E%2E/sleep',
  '/v1/.%2e/sleep',
  '/v1/..;/sleep',
  '/v1/..\\sleep',
  '/v1/..%5csleep',
  '/v1%2f..%2fsleep',
  '/v1/responses/..%2f..%2fsleep',
  '/v1/responses/%2e%2e%2f%2e%2e%2fsleep',
  '/v1/responses/..%252f..%252fsleep',
  '/v1/models/..%2f..%2fsleep',
  '/v1/firstlight/../../sleep',
  '//sleep',
  '///sleep',
  '/./sleep',
  '/sleep/',
  '/sleep%00',
  '/sleep%20',
  '/sleep;x',
  '/sleep?x=/v1/chat/completions',
  '/sleep#/v1/chat/completions',
  '/%73leep',
  '/SLEEP',
  '/\\sleep',
  '/%2fsleep',
  '/v1/chat/completions/sleep',
  '/v1/chat/completions%2f..%2fsleep',
  '/v1/chat/completions%00/../sleep',
  '/v1/chat/completions;/../sleep',
  'sleep',
  '*',
]

export function paths(world: () => AttackWorld): void {
  const head = (method: string, target: string, host: string): string => {
    const body = method === 'POST' ? chat() : ''
    const length = method === 'POST' ? `content-type: application/json\r\ncontent-length: ${body.length}\r\n` : ''
    return `${method} ${target} HTTP/1.1\r\nhost: ${host}\r\nx-attack: 1\r\n${keyLine()}${length}\r\n${body}`
  }

  async function expectNoCall(target: string): Promise<void> {
    const { engine, table } = world()
    engine.calls.length = 0
    for (const host of table.hosts) {
      for (const method of ['POST', 'GET']) {
        const { status, text } = await sendRaw(world(), head(method, target, host))
        expect(text).not.toContain('WELL')
        // On workerd, an invalid target does not reach the gateway's code.
        if (!table.isWorker || target.startsWith('/')) expect([0, 400, 404, 405]).toContain(status)
      }
    }
    expect(engine.calls).toEqual([])
  }

  it.each(ENGINE_ONLY)('%s is not served', expectNoCall)
  it.each(SPELLINGS)('%s is not served', expectNoCall)
  it('an absolute target does not choose the upstream host', async () => {
    const { engine, hostile, table } = world()
    engine.calls.length = hostile.calls.length = 0
    const { status } = await sendRaw(world(), head('POST', `${hostile.url}/sleep`, table.hosts[0]!))
    expect([400, 404]).toContain(status)
    await sendRaw(world(), head('POST', `${hostile.url}/v1/chat/completions`, table.hosts[0]!))
    expect(hostile.calls).toEqual([])
    expect(engine.calls.every(({ target }) => target === '/v1/chat/completions')).toBe(true)
  })
  it.each(['/%76%31/chat/completions', '/v1/./chat/completions', '/v1/x/../chat/completions'])(
    '%s is asked of engines as the one path it names, or not at all',
    async (target) => {
      const { engine, table } = world()
      engine.calls.length = 0
      const { status } = await sendRaw(world(), head('POST', target, table.hosts[0]!))
      expect([200, 404]).toContain(status)
      expect(engine.calls.map(({ target: seen }) => seen)).toEqual(status === 200 ? ['/v1/chat/completions'] : [])
    },
  )
}
