/** Streams cut at random bytes, on any runtime. */
import { expect, it } from 'vitest'
import { cutDocument, faultsOf, OUTPUT, randomCase, randomOf, SECRET } from '../../bench/continuation/cases.ts'
import { ByteEngine } from './byte-engine.ts'

type Start = (document: Record<string, unknown>) => Promise<{ readonly url: string; close(): Promise<void> }>

/** Streams of a run of the test; `npm run bench -- continuation` has 10,000. */
const RANDOM_STREAMS = 300

export function randomCutContract(name: string, start: Start): void {
  it(`has no gap, duplicate or prompt in ${RANDOM_STREAMS} streams cut at random bytes on ${name}`, async () => {
    const engines = [0, 1, 2].map(() => new ByteEngine(SECRET, OUTPUT))
    await Promise.all(engines.map((engine) => engine.open()))
    const urls = engines.map(({ url }) => url)
    const gateway = await start(cutDocument(urls, { mid_stream: 'ids' }) as Record<string, unknown>)
    try {
      const random = randomOf(25)
      const cases = Array.from({ length: RANDOM_STREAMS }, (_, at) => randomCase(random, `${name} ${at}`))
      const wrong: unknown[] = []
      await Promise.all(
        Array.from({ length: 8 }, async () => {
          for (let one = cases.pop(); one !== undefined; one = cases.pop()) {
            const response = await fetch(gateway.url + one.path, {
              method: 'POST',
              headers: { 'content-type': 'application/json' },
              body: JSON.stringify(one.body),
            })
            const found = faultsOf(one, await response.text())
            if (found.length > 0) wrong.push({ ...one, found })
          }
        }),
      )
      expect(wrong).toEqual([])
    } finally {
      await gateway.close()
      for (const engine of engines) engine.close()
    }
  }, 120_000)
}
