import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'

const bench = new URL('../../../packages/bench/', import.meta.url)
const ours = new URL('proxy/', bench)

it('every script that a benchmark starts is at the path that the benchmark names', () => {
  const named = readdirSync(bench, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => {
      const calls = readFileSync(new URL(file, bench), 'utf8').matchAll(/\bstart(?:Script)?\('([^']+\.ts)'/g)
      return Array.from(calls, ([, script]) => script!)
    })
  expect(named).toContain('../edge/host.ts')
  expect(named.filter((script) => !existsSync(new URL(script, ours)))).toEqual([])
})
