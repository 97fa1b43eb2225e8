import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CoveredFunction } from '../../packages/bench/path/coverage.ts'
import { blocksOf, type Chat, chatOf, functionsOf } from '../../packages/bench/path/unconfigured-code.ts'

const COVERAGE = new URL('../../packages/bench/path/coverage.ts', import.meta.url).href

/** A feature and three requests that ask for it: in the request, not at all, or once in the composition. */
const FILES = {
  'feature.mjs': `export const count = (log) => { log.push('counted') }
export const isWanted = (options) => options.feature
`,
  'asks.mjs': `import { count } from './feature.mjs'
export const composed = (options) => (log) => {
  if (options.feature) count(log)
  log.push('served')
}
`,
  'reaches.mjs': `import { count } from './feature.mjs'
export const composed = (options) => (log) => {
  if (options.feature || options.form) log.push('long form')
  log.push('served')
}
`,
  'calls.mjs': `import { isWanted } from './feature.mjs'
export const composed = (options) => (log) => {
  isWanted(options)
  log.push('served')
}
`,
  'composes.mjs': `import { count } from './feature.mjs'
const serve = (log) => { log.push('served') }
const counted = (next) => (log) => {
  count(log)
  next(log)
}
export const composed = (options) => options.feature ? counted(serve) : serve
`,
  'waits.mjs': `import { count } from './feature.mjs'
export const composed = (options) => {
  const make = options.feature ? async () => 'served' : () => 'served'
  return async (log) => {
    const made = make()
    log.push(made instanceof Promise ? await made : made)
  }
}
`,
  'run.mjs': `import { Coverage } from ${JSON.stringify(COVERAGE)}
const [root, path, feature] = process.argv.slice(2)
const coverage = new Coverage(root)
await coverage.open()
const { composed } = await import(root + path)
const serve = composed({ feature: feature === 'on', form: feature === 'other form' })
serve([])
const requests = []
for (let sent = 0; sent < 3; sent++) {
  await coverage.take()
  serve([])
  requests.push(await coverage.take())
}
console.log(JSON.stringify(requests))
`,
}

const root = `${mkdtempSync(join(tmpdir(), 'firstlight-path-'))}/`

beforeAll(() => {
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(root, name), text)
})

afterAll(() => rmSync(root, { recursive: true, force: true }))

function chat(path: string, feature: 'on' | 'off' | 'other form'): Chat {
  const text = execFileSync(process.execPath, [join(root, 'run.mjs'), root, path, feature], { encoding: 'utf8' })
  return chatOf(JSON.parse(text) as CoveredFunction[][])
}

const feature = { files: ['feature.mjs'] }

function countedIn(
  path: string,
  others: readonly Chat[] = [],
): { readonly functions: string[]; readonly blocks: string[] } {
  const off = [chat(path, 'off'), chat(path, 'off')]
  const on = [chat(path, 'on')]
  return { functions: functionsOf(feature, off), blocks: blocksOf(feature, { off, others, on }, root) }
}

describe('code of a feature that is off', () => {
  it('code of a feature that is off is counted if a request calls a function of the feature', () => {
    expect(countedIn('calls.mjs')).toEqual({ functions: ['feature.mjs isWanted runs'], blocks: [] })
  })

  it('code of a feature that is off is counted if a request asks whether the feature is on', () => {
    expect(countedIn('asks.mjs')).toEqual({
      functions: [],
      blocks: ['asks.mjs (anonymous) line 3: if (options.feature) count(log)'],
    })
  })

  it('code of a feature that is off is not counted if a plain chat of another form runs it too', () => {
    const block = "reaches.mjs (anonymous) line 3: if (options.feature || options.form) log.push('long form')"
    expect(countedIn('reaches.mjs').blocks).toContain(block)
    expect(countedIn('reaches.mjs', [chat('reaches.mjs', 'other form')]).blocks).toEqual([])
  })

  it('code of a feature that is off is not counted if the feature is asked for once, in the composition', () => {
    expect(countedIn('composes.mjs')).toEqual({ functions: [], blocks: [] })
  })

  it('code of a feature that is off is not counted if a request only waits for a promise of the feature', () => {
    expect(countedIn('waits.mjs').blocks).toEqual([])
  })
})
