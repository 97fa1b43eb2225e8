import { describe, expect, it } from 'vitest'
import { parseConfig } from '../../src/config/parse.ts'
import { summarise } from '../../src/config/summary.ts'

const read = (kvEvents: unknown, { pool = {}, ...more }: Readonly<Record<string, unknown>> = {}) =>
  parseConfig(
    {
      open: true,
      clusters: [
        {
          id: 'one',
          pools: [
            {
              model: 'm',
              engines: [{ id: 'a', url: 'http://a:1', ...(kvEvents === undefined ? {} : { kv_events: kvEvents }) }],
              ...(pool as object),
            },
          ],
        },
      ],
      ...more,
    },
    { BRIDGE: 'from-env' },
    { defaultVersion: 1, defaultObserveShare: 1, listens: true },
  )
const engine = (kvEvents?: unknown) => read(kvEvents).clusters[0]!.pools[0]!.engines[0]!.kvEvents

describe('kv_events', () => {
  it('`kv_events` require only the endpoint', () => {
    expect(engine()).toBeNull()
    expect(engine({ endpoint: 'tcp://10.0.0.1:5557' })).toEqual({
      endpoint: 'tcp://10.0.0.1:5557',
      replayEndpoint: null,
      topic: null,
    })
    expect(engine({ endpoint: 'ipc:///run/kv', replay_endpoint: 'tcp://[::1]:5558', topic: 'kv' })).toEqual({
      endpoint: 'ipc:///run/kv',
      replayEndpoint: 'tcp://[::1]:5558',
      topic: 'kv',
    })
  })

  it.each(['tcp://*:5557', 'http://10.0.0.1:5557', '10.0.0.1:5557', 'tcp://'])(
    '`kv_events` reject an address that cannot be connected to: %s',
    (endpoint) => {
      expect(() => engine({ endpoint })).toThrow(/kv_events.endpoint[^]*tcp:\/\/10.0.0.1:5557/)
    },
  )

  it('`kv_events` have a note if prompts are measured in bytes', () => {
    const note = 'KV events cannot match'
    expect(summarise(read({ endpoint: 'tcp://a:1' })).notes.join()).toContain(note)
    expect(summarise(read({ endpoint: 'tcp://a:1' }, { pool: { tokenizer: 'm.vocab' } })).notes.join()).not.toContain(
      note,
    )
    expect(summarise(read(undefined)).notes.join()).not.toContain(note)
  })
})

describe('bridge', () => {
  it('bridge has its own secret from the environment', () => {
    expect(read(undefined).bridge).toBeNull()
    expect(read(undefined, { bridge: { secret: { env: 'BRIDGE' } } }).bridge).toEqual({ secret: 'from-env' })
  })
})
