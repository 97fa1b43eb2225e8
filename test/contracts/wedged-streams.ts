/** Streams that stop in the middle while their engine still answers health checks, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { type RunningFleet, startFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { ADMIN } from '../kit/split-gateway.ts'
import { read, type Streamed } from './continuation.ts'
import { runtimeNames, startRuntime, type Runtime } from '../kit/gateway.ts'

const MODEL = 'base'
const OUTPUT_TOKENS = 60

export function wedgedStreamsContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`streams that stop in the middle, on ${name}`, () => {
    const open: (() => Promise<void>)[] = []
    afterEach(async () => {
      for (const close of open.splice(0).reverse()) await close()
    })

    const site = async (midStream: string) => {
      const fleet: RunningFleet = await startFleet({
        model: MODEL,
        profile: 'test',
        engines: [{ id: 'a' }, { id: 'b' }],
      })
      open.push(() => fleet.close())
      const gateway = await startRuntime(runtime, {
        open: true,
        admin: { secret: ADMIN },
        log: { level: 'silent' },
        clusters: [
          {
            id: 'c',
            pools: [
              {
                model: MODEL,
                policy: 'round_robin',
                observe_share: 1,
                // No failed stream could move within this budget.
                retry: { mid_stream: midStream, share: 0, min_per_s: 0 },
                engines: ['a', 'b'].map((id, at) => ({ id, url: fleet.urls[at]! })),
              },
            ],
          },
        ],
      })
      open.push(() => gateway.close())
      const stream = async (): Promise<Streamed> =>
        read(
          await fetch(`${gateway.url}/v1/chat/completions`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({
              model: MODEL,
              stream: true,
              max_tokens: OUTPUT_TOKENS,
              ignore_eos: true,
              messages: [{ role: 'user', content: 'Tell me of the sea.' }],
            }),
            signal: AbortSignal.timeout(45_000),
          }),
        )
      const condition = async (id: string): Promise<string | undefined> => {
        const headers = { authorization: `Bearer ${ADMIN}` }
        const { pools } = (await (await fetch(`${gateway.url}/v1/firstlight/fleet`, { headers })).json()) as {
          pools: { engines: { id: string; condition: string }[] }[]
        }
        return pools.flatMap(({ engines }) => engines).find((engine) => engine.id === id)?.condition
      }
      // The time between tokens is learned.
      const whole: Streamed[] = []
      for (let at = 0; at < 10; at++) whole.push(await stream())
      return { fleet, stream, condition, text: whole[0]!.text }
    }

    it.each(['ids', 'replay'])(
      'move to another engine once theirs is found wedged (%s)',
      async (midStream) => {
        const { fleet, stream, condition, text } = await site(midStream)
        fleet.engine('a').setFault({ kind: 'hang', where: 'middle', after: 5 })
        const streams = await Promise.all(Array.from({ length: 6 }, stream))
        expect(new Set(streams.map(({ engine }) => engine))).toEqual(new Set(['a', 'b']))
        expect(streams.map((one) => ({ text: one.text, isClean: one.isClean, error: one.error }))).toEqual(
          streams.map(() => ({ text, isClean: true, error: null })),
        )
        expect(await condition('a')).toBe('wedged')
      },
      60_000,
    )
  })
}
