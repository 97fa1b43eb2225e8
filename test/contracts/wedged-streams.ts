/** Streams that stop in the middle while their engine still answers health checks, on any runtime. */
import { afterEach, describe, expect, it } from 'vitest'
import { createFleet } from '../../packages/simulator/src/fleet.ts'
import { type RunningFleet, startFleet } from '../../packages/simulator/src/node/fleet-host.ts'
import { RankHost } from '../../packages/simulator/src/node/rank-host.ts'
import { read, type Streamed } from './continuation.ts'
import { MODEL, openGateway, runtimeNames, type Runtime } from '../kit/gateway.ts'

const OUTPUT_TOKENS = 60

export function wedgedStreamsContract(runtime: Runtime): void {
  const name = runtimeNames[runtime]
  describe(`streams that stop in the middle, on ${name}`, () => {
    const open: (() => Promise<void>)[] = []
    afterEach(async () => {
      for (const close of open.splice(0).reverse()) await close()
    })

    /** Two servers, or the two ranks of one. */
    const enginesOf = async (kind: 'servers' | 'ranks') => {
      if (kind === 'servers') {
        const fleet: RunningFleet = await startFleet({
          model: MODEL,
          profile: 'test',
          engines: [{ id: 'a' }, { id: 'b' }],
        })
        open.push(() => fleet.close())
        return { fleet, engines: ['a', 'b'].map((id, at) => ({ id, url: fleet.urls[at]! })) }
      }
      const fleet = createFleet({ model: MODEL, profile: 'test', engines: [{ id: 'a' }, { id: 'b' }] })
      const host = await RankHost.open(fleet.engines)
      open.push(
        () => host.close(),
        async () => fleet.stop(),
      )
      return { fleet, engines: [{ id: 's', url: host.url, data_parallel: 2 }] }
    }

    const site = async (midStream: string, kind: 'servers' | 'ranks' = 'servers') => {
      const { fleet, engines } = await enginesOf(kind)
      const gateway = await openGateway({
        runtime,
        engines,
        pool: {
          policy: 'round_robin',
          observe_share: 1,
          // No failed stream could move within this budget.
          retry: { mid_stream: midStream, share: 0, min_per_s: 0 },
        },
      })
      open.push(() => gateway.close())
      const stream = async (): Promise<Streamed> => {
        const messages = [{ role: 'user', content: 'Tell me of the sea.' }]
        const request = { messages, stream: true, max_tokens: OUTPUT_TOKENS, ignore_eos: true }
        return read(await gateway.chat(request, { signal: AbortSignal.timeout(45_000) }))
      }
      const condition = async (id: string) => (await gateway.engines())[id]?.['condition']
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

    it.runIf(runtime === 'node')(
      'a stream of a stalled rank continues at the other rank with the same text, and those there go on',
      async () => {
        const { fleet, stream, condition, text } = await site('ids', 'ranks')
        fleet.engine('a').setFault({ kind: 'hang', where: 'middle', after: 5 })
        const streams = await Promise.all(Array.from({ length: 6 }, stream))
        expect(new Set(streams.map(({ engine }) => engine))).toEqual(new Set(['s/0', 's/1']))
        expect(streams.map((one) => ({ text: one.text, isClean: one.isClean, error: one.error }))).toEqual(
          streams.map(() => ({ text, isClean: true, error: null })),
        )
        expect([await condition('s/0'), await condition('s/1')]).toEqual(['wedged', 'well'])
      },
      60_000,
    )
  })
}
