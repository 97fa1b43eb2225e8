import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { HonoBase } from 'hono/hono-base'
import { beforeEach, expect, it, vi } from 'vitest'
import { StaticRouter } from '../../src/api/static-router.ts'

const script = new URL('../../scripts/trim-hono.mjs', import.meta.url).href
const { trimmedHono, UNASKED, without } = (await import(/* @vite-ignore */ script)) as {
  readonly trimmedHono: () => Promise<string>
  readonly UNASKED: Readonly<Record<string, readonly string[]>>
  readonly without: (module: string, members: readonly string[]) => string
}
const text = await trimmedHono()
const trimmed = ((await import(/* @vite-ignore */ `data:text/javascript,${encodeURIComponent(text)}`)) as { HonoBase: typeof HonoBase }).HonoBase

// Hono tells the console of errors that nobody caught.
beforeEach(() => void vi.spyOn(console, 'error').mockImplementation(() => {}))

/** All that src/api does with Hono, and what Hono does by itself. */
function appOf(Base: typeof HonoBase): HonoBase {
  const app = new Base({ router: new StaticRouter() })
  app.get('/fixed', (c) => new Response(`${c.req.raw.method} ${JSON.stringify(c.env)}`, { headers: { 'x-a': 'b' } }))
  app.post('/fixed', () => new Response('posted'))
  app.all('/fixed', () => new Response('no', { status: 405, headers: { allow: 'GET' } }))
  app.on('PUT', '/on/*', (c) => new Response(c.req.raw.url))
  app.get('/of/:name/:other', (c) => new Response(JSON.stringify(c.req.param())))
  app.get('/of/:name', (c) => new Response(c.req.param('name')))
  app.get('/broken', () => {
    throw new Error('broken')
  })
  app.get('/late', async () => Promise.reject(new Error('late')))
  return app
}

const said = async (Base: typeof HonoBase, [method, path]: readonly [string, string], found: boolean): Promise<unknown> => {
  const app = appOf(Base)
  if (found) app.notFound((c) => new Response(`nothing at ${c.req.raw.url}`, { status: 404 }))
  const answer = await app.fetch(new Request(`http://localhost${path}`, { method }), { binding: 1 })
  return { status: answer.status, headers: [...answer.headers], text: await answer.text() }
}

it.each([
  ['GET', '/fixed'],
  ['HEAD', '/fixed'],
  ['POST', '/fixed?a=b'],
  ['DELETE', '/fixed'],
  ['PUT', '/on/a/b%2Fc'],
  ['GET', '/of/a%20b%2F%zz'],
  ['GET', '/of/a/b'],
  ['GET', '/nowhere'],
  ['GET', '/broken'],
  ['GET', '/late'],
] as const)('what nobody asks of Hono changes nothing of what it answers: %s %s', async (...request) => {
  for (const found of [true, false]) expect(await said(trimmed, request, found)).toEqual(await said(HonoBase, request, found))
})

it('nothing that is left out is asked for', () => {
  const members = new Set(Object.values(UNASKED).flat())
  const folder = fileURLToPath(new URL('../../src/api/', import.meta.url))
  const users = readdirSync(folder, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => readFileSync(`${folder}/${name}`, 'utf8'))
    .filter((source) => source.includes("from 'hono"))
  const asked = users.flatMap((source) => [...source.matchAll(/\b(?:app|c|context)(?:\.req)?\.(\w+)/g)].map(([, name]) => name!))
  expect(asked).toEqual(expect.arrayContaining(['on', 'all', 'notFound', 'raw', 'param', 'env']))
  // `app.get` and `app.notFound` are others than those of a context.
  expect(asked.filter((name) => (members.has(name) && name !== 'get' && name !== 'notFound') || name === 'use')).toEqual([])
  // Nor is anything put before the paths of routes.
  expect(users.flatMap((source) => [...source.matchAll(/\bapp\.(?:get|post|all)\('([^/].*?)'/g)])).toEqual([])
})

it('another version of Hono is not cut blindly', () => {
  expect(() => without('class Hono {\n\tmount2() {\n\t}\n}\n', ['mount'])).toThrow('has no mount')
  expect(without('class Hono {\n\tmount() {\n\t\treturn 1;\n\t}\n\ta = 1;\n}\n', ['mount'])).toBe('class Hono {\n\ta = 1;\n}\n')
  expect(text).not.toMatch(/createMountedRequest|parseBody|getQueryParam|compose|newResponse|mergePath|finalized/)
})
