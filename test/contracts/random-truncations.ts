/** Streams cut at random bytes, on any runtime. */
import { expect, it } from 'vitest'
import {
  continuationDocument,
  faultsAt,
  OUTPUT,
  randomCase,
  randomOf,
  SECRET,
} from '../../packages/bench/continuation/cases.ts'
import { ByteEngine } from '../kit/byte-engine.ts'
import { runtimeNames, startRuntime, type Runtime } from '../kit/gateway.ts'

/** @param streams `npm run bench -- continuation` has 10,000 */
export function randomTruncationContract(runtime: Runtime, streams: number): void {
  const name = runtimeNames[runtime]
  it(`no gap, duplicate or prompt is in ${streams} streams that are truncated at random bytes on ${name}`, async () => {
    const engines = [0, 1, 2].map(() => new ByteEngine(SECRET, OUTPUT))
    await Promise.all(engines.map((engine) => engine.open()))
    const urls = engines.map(({ url }) => url)
    const gateway = await startRuntime(
      runtime,
      continuationDocument(urls, { mid_stream: 'ids' }) as Record<string, unknown>,
    )
    try {
      const random = randomOf(25)
      const cases = Array.from({ length: streams }, (_, at) => randomCase(random, `${name} ${at}`))
      const wrong: unknown[] = []
      await Promise.all(
        Array.from({ length: 8 }, async () => {
          for (let one = cases.pop(); one !== undefined; one = cases.pop()) {
            const found = await faultsAt(gateway.url, one)
            if (found.length > 0) wrong.push({ ...one, found })
          }
        }),
      )
      expect(wrong).toEqual([])
    } finally {
      await gateway.close()
      for (const engine of engines) await engine.close()
    }
  }, 120_000)
}
