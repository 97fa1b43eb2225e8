import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { expect, it } from 'vitest'
import * as zod from 'zod/mini'
import { bundleWorker } from '../../scripts/bundle-worker.ts'
import type { parseConfig } from '../../src/config/parse.ts'
import type { ConfigError } from '../../src/config/problem.ts'
import { parseYaml } from '../../src/config/yaml.ts'

const script = new URL('../../scripts/trim-zod.mjs', import.meta.url).href
const { ASKED, trimmedZod } = (await import(/* @vite-ignore */ script)) as {
  readonly ASKED: readonly string[]
  readonly trimmedZod: () => Promise<string>
}
const { changed } = (await import(/* @vite-ignore */ new URL('../../scripts/trim-changes.mjs', import.meta.url).href)) as {
  readonly changed: (module: string, changes: readonly (readonly [RegExp, string])[], whose: string) => string
}
const text = await trimmedZod()
const loaded = async (module: string): Promise<unknown> => import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(module)}`)
const trimmed = (await loaded(text)) as typeof zod

const NUMBERS = [0, -1, 1, 3, 4, 1.5, 2 ** 53, -(2 ** 60), Number.NaN, Number.POSITIVE_INFINITY]
const TEXTS = ['', 'a', 'abc', 'toolong', '😀😀', '😀😀😀', 'x'.repeat(40), 'any', 'dns', '1', '__proto__']
const LISTS = [[], ['a'], ['a', 1], ['a', 'b', 'c', 'd'], [1, null, undefined, {}]]
const MAPS = [{}, { a: 1 }, { a: 'x', b: 2 }, { a: undefined }, { a: null, c: [] }, { name: 'one', n: 1 }, { name: 'two', n: 1 }, { '1': 'x' }, JSON.parse('{"__proto__": 1, "a": "x"}')]
const VALUES: readonly unknown[] = [undefined, null, true, false, ...NUMBERS, ...TEXTS, ...LISTS, ...MAPS, new Date(0), new Map([['a', 'x']])]

/** Schemas of each kind, over and in one another. */
function schemasOf(z: typeof zod): readonly zod.ZodMiniType[] {
  const { _default: otherwise } = z
  const short = z.string({ error: 'a text' }).check(z.minLength(1), z.maxLength(3, { error: 'too long' }), z.regex(/^[a-z😀]/u))
  const whole = z.int().check(z.gte(1), z.lte(3))
  const even = z.number().check(z.refine((value) => value % 2 === 0, { error: (issue) => `odd: ${String(issue.input)}` }))
  const open = z.object({ a: z.optional(short), b: z.nullish(whole), c: otherwise(z.array(even), [2]) })
  const closed = z.strictObject({ a: z.prefault(z.array(short).check(z.minLength(1), z.maxLength(2)), ['z']), name: z.enum(['one', 'two']) }, { error: (issue) => (issue.code === 'unrecognized_keys' ? `not ${issue.keys.join()}` : undefined) })
  const checked = z.array(whole).check((context) => void (context.value.length > 1 && context.issues.push({ code: 'custom', message: 'one', input: context.value })))
  return [
    short, z.string().check(z.minLength(3)), whole, even, open, closed, checked, z.boolean(), z.nullable(short), z.enum(['any', 'dns']), z.record(short, whole), z.record(z.string(), z.nullable(z.string())),
    z.union([short, whole, closed]), z.union([open]), z.union([z.int(), z.enum(['any'])], { error: 'neither' }), z.array(z.union([short, z.record(z.string(), even)])),
    z.prefault(closed, { name: 'one' }), z.object({ deep: z.prefault(open, {}), none: z.optional(otherwise(z.boolean(), true)) }),
  ]
}

it('what nobody asks of Zod changes nothing of what its schemas find', () => {
  const own = schemasOf(zod)
  const error = (issue: zod.core.$ZodRawIssue) => (issue.code === 'invalid_type' ? `no ${issue.expected}` : undefined)
  for (const [index, schema] of schemasOf(trimmed).entries()) {
    for (const value of [...VALUES, ...VALUES.map((deep) => ({ deep })), ...VALUES.map((c) => ({ c: [2, c] }))]) {
      for (const options of [{}, { error, reportInput: true }]) {
        const [before, after] = [own[index]!.safeParse(value, options), schema.safeParse(value, options)]
        // Only who asks for it hears that a whole number has to be a safe one.
        const issues = JSON.parse(JSON.stringify([before.error?.issues ?? null]).replaceAll(/"note":"[^"]*",/g, '')) as unknown[]
        expect([after.success, JSON.parse(JSON.stringify([after.error?.issues ?? null]))]).toEqual([before.success, issues])
        expect(after.data).toStrictEqual(before.data)
      }
    }
  }
})

/** Reads configurations, with one Zod or the other. */
async function reader(contents?: string): Promise<{ readonly parseConfig: typeof parseConfig }> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('../../src/config/parse.ts', import.meta.url))],
    bundle: true,
    format: 'esm',
    write: false,
    define: { 'import.meta.bare': 'true' },
    ...(contents !== undefined && {
      plugins: [{
        name: 'trimmed',
        setup({ onResolve, onLoad }) {
          onResolve({ filter: /^zod\/mini$/ }, ({ path }) => ({ path, namespace: 'trimmed' }))
          onLoad({ filter: /./, namespace: 'trimmed' }, () => ({ contents }))
        },
      }],
    }),
  })
  return (await loaded(outputFiles[0]!.text)) as { readonly parseConfig: typeof parseConfig }
}

/** The document with each of its values, one after the other, replaced by `value`. */
function* replaced(document: unknown, value: unknown): Generator<unknown> {
  yield value
  if (typeof document !== 'object' || document === null) return
  for (const [key, inner] of Object.entries(document)) {
    for (const other of replaced(inner, value)) yield Array.isArray(document) ? document.with(Number(key), other) : { ...document, [key]: other }
  }
}

it('every fault of a document is found as Zod itself finds it', async () => {
  const readers = [await reader(), await reader(text)]
  const document = parseYaml(readFileSync(new URL('../../examples/production.yaml', import.meta.url), 'utf8')).value
  let refused = 0
  for (const value of [undefined, null, '', 'x y', -1, 1.5, 1e20, true, [], {}, ['a'], { a: 1 }, { env: 'UNSET' }]) {
    for (const other of replaced(document, value)) {
      const [before, after] = readers.map(({ parseConfig: parse }) => {
        try {
          return parse(other, {}, { listens: false, defaultVersion: 1, defaultObserveShare: 1 })
        } catch (error) {
          return { problems: (error as ConfigError).problems, name: (error as Error).name }
        }
      })
      expect(after).toEqual(before)
      if ('problems' in (after as object)) refused += 1
    }
  }
  expect(refused).toBeGreaterThan(100)
})

/** The Worker's own modules. */
async function sources(): Promise<string[]> {
  const { metafile } = await build({ entryPoints: [fileURLToPath(new URL('../../src/worker.ts', import.meta.url))], bundle: true, format: 'esm', write: false, metafile: true, packages: 'external', external: ['cloudflare:*', 'node:*'], logLevel: 'silent' })
  return Object.keys(metafile.inputs).filter((file) => /^src\/.*\.ts$/.test(file))
}

it('whoever asks a cut library for more hears of it', async () => {
  await expect(bundleWorker(new URL('../../src/worker.ts', import.meta.url))).resolves.toContain('fetch')
  expect(Object.keys(trimmed).toSorted()).toEqual([...ASKED].toSorted())
  const one = trimmed.string() as unknown as Record<string, unknown>
  for (const member of ['parse', 'parseAsync', 'safeParseAsync', '~standard', 'register', 'brand', 'with', 'apply']) expect([member, member in one]).toEqual([member, false])
  // Types have them still: only the text tells who asks.
  const files = await sources()
  expect(files).toContain('src/origin/lmcache/facts.ts')
  for (const file of files) expect([file, /(?<!\b(?:JSON|Date|URL))\.(?:parse|parseAsync|safeParseAsync|register|brand)\(/.exec(readFileSync(file, 'utf8'))?.[0]]).toEqual([file, undefined])
  expect(() => trimmed.record(trimmed.enum(['a']), trimmed.int()).safeParse({ a: 1 })).toThrow('listed keys')
  expect(text).not.toMatch(/Promise|memo\b|backward|globalThis/)
})

/** What follows the `(` of a call, up to its `)`. */
function argumentsAt(source: string, from: number): string {
  let depth = 1
  let to = from
  while (depth > 0 && to < source.length) {
    if (source[to] === '(') depth += 1
    else if (source[to] === ')') depth -= 1
    to += 1
  }
  return source.slice(from, to - 1)
}

/** Checks of schemas that answer by a promise, which is true whatever it will say. */
function waiting(texts: readonly string[]): string[] {
  const later = new Set(texts.flatMap(waitsIn))
  return texts.flatMap((source) => {
    const imported = [...source.matchAll(/^import \{([^}]*)\}/gm)].flatMap(([, names]) => names!.match(/\w+/g) ?? [])
    const waits = new Set([...waitsIn(source), ...imported.filter((name) => later.has(name))])
    const checks = [...source.matchAll(/\b(?:refine|check)\(/g)].map(({ 0: call, index }) => argumentsAt(source, index + call.length))
    return checks.filter((check) => /\b(?:async|await|Promise)\b|\.then\(/.test(check) || [...check.matchAll(/\w+/g)].some(([word]) => waits.has(word)))
  })
}

/** Names of a module's functions that answer by a promise. */
const waitsIn = (source: string): string[] => [...source.matchAll(/\basync function\*? (\w+)|\b(\w+)(?:: [^=\n]+)? = async\b/g)].map(([, one, other]) => one ?? other!)

it('no check of a schema waits for a promise: a cut Zod would take it for a yes', async () => {
  const texts = (await sources()).map((file) => readFileSync(file, 'utf8'))
  expect(waiting(texts)).toEqual([])
  expect(texts.join('').match(/\brefine\(/g)!.length).toBeGreaterThan(5)
  const known = 'export async function known(name: string) {}\nexport const there = async (name) => true\nexport const here = (name) => true'
  const using = (check: string) => [known, `import { known, there, here } from './known.ts'\n${check}`]
  for (const check of ['z.refine(async (name) => name)', 'z.refine(known, { error })', 'a.check((context) => void there(context.value))', 'z.refine((name) => look(name).then(Boolean))']) expect(waiting(using(check))).toHaveLength(1)
  for (const check of ['z.refine(here, { error })', 'z.refine((name) => names.has(name))', 'z.string().check(z.minLength(1))']) expect(waiting(using(check))).toEqual([])
  // That is why.
  const never = trimmed.string().check(trimmed.refine(async () => false))
  expect(never.safeParse('x').success).toBe(true)
  expect(() => zod.string().check(zod.refine(async () => false)).safeParse('x')).toThrow(zod.core.$ZodAsyncError)
})

it('another version of Zod is not cut blindly', () => {
  expect(() => changed('const a = 1', [[/const b/, '']], 'this version')).toThrow('has no /const b/')
  expect(changed('const a = 1', [[/const a/, 'let a']], 'this version')).toBe('let a = 1')
})
