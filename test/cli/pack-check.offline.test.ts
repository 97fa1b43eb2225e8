import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { convertV4MiniflareOptions, Miniflare } from 'miniflare'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startFleet, type RunningFleet } from '../../packages/simulator/src/node/fleet-host.ts'

/**
 * Unpacks the tarball into an empty folder with only its declared dependencies. They are linked, because the test has
 * no network. `npm run pack:check` does the same with a real `npm install`.
 */
const execute = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'firstlight-pack-'))
const installed = join(folder, 'node_modules', 'firstlight')
const bin = join(installed, 'bin', 'firstlight.mjs')
const bundle = join(installed, 'dist', 'node')

beforeAll(async () => {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  }
  for (const name of Object.keys(dependencies)) {
    const link = join(folder, 'node_modules', name)
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), link)
  }
  await execute('npm', ['pack', '--silent', '--pack-destination', folder], { cwd: root })
  const tarball = readdirSync(folder).find((name) => name.endsWith('.tgz'))!
  mkdirSync(installed, { recursive: true })
  await execute('tar', ['-xzf', join(folder, tarball), '-C', installed, '--strip-components=1'])
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

const firstlight = (...argv: string[]) => execute(process.execPath, [bin, ...argv], { cwd: folder })

/** Resolves with the first match in the child's output; rejects if the child ends before. */
async function printed(child: ChildProcess, pattern: RegExp): Promise<RegExpMatchArray> {
  let text = ''
  for await (const line of createInterface({ input: child.stdout! })) {
    text += `${line}\n`
    const match = pattern.exec(text)
    if (match !== null) return match
  }
  throw new Error(`ended without saying ${pattern}: ${text}`)
}

const ended = (child: ChildProcess) => new Promise<number | null>((resolve) => child.once('exit', resolve))

describe('the packed tarball', () => {
  it('the packed tarball contains no sources, tests or benches', () => {
    expect(readdirSync(installed).sort()).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'bin',
      'deploy',
      'dist',
      'docs',
      'examples',
      'package.json',
    ])
    expect(readdirSync(join(installed, 'bin')).sort()).toEqual([
      'firstlight.mjs',
      'serving-flags.d.mts',
      'serving-flags.mjs',
    ])
    expect(readdirSync(join(installed, 'dist'))).toEqual(['dashboard', 'lib', 'licences.txt', 'node', 'types'])
  })

  it('the packed tarball has one byte per character, in lines short enough for a stack trace, because V8 keeps it in memory', () => {
    const files = readdirSync(bundle).filter((name) => name.endsWith('.mjs'))
    for (const text of files.map((name) => readFileSync(join(bundle, name)))) {
      expect(text.findIndex((byte) => byte > 0x7f)).toBe(-1)
      const lines = text.toString('latin1').split('\n')
      expect(Math.max(...lines.map(({ length }) => length))).toBeLessThan(2_000)
    }
  })

  /** Sources of a file of the bundle and of all files that it imports statically. */
  function loadedWith(name: string, files = new Set<string>()): string[] {
    files.add(name)
    const text = readFileSync(join(bundle, name), 'utf8')
    for (const [, imported] of text.matchAll(/(?:from|import)"\.\/([^"]+)"/g))
      if (!files.has(imported!)) loadedWith(imported!, files)
    return [...files].flatMap((file) => {
      const { sources } = JSON.parse(readFileSync(join(bundle, `${file}.map`), 'utf8')) as { sources: string[] }
      return sources.map((source) => source.replace(/^(?:\.\.\/)+/, ''))
    })
  }

  it('the packed tarball loads no code of packages before one of their commands runs', () => {
    const sources = loadedWith('program.mjs')
    expect(sources).toContain('src/gateway.ts')
    expect(sources.filter((source) => source.startsWith('packages/'))).toEqual([])
  })

  it('the packed tarball loads no code of commands in an I/O thread', () => {
    const sources = loadedWith('thread.mjs')
    expect(sources).toContain('src/gateway.ts')
    expect(sources.filter((source) => /^(?:packages|bin|src\/cli)\//.test(source))).toEqual([])
  })

  it('the packed tarball contains the licences of its dependencies', () => {
    const licences = readFileSync(join(installed, 'dist', 'licences.txt'), 'utf8')
    for (const name of ['@hono/node-server', 'hono', 'js-yaml', 'preact', 'zod'])
      expect(licences).toMatch(new RegExp(`^${name}\n=+\n\n[^]*?Copyright`, 'm'))
  })

  it('the packed tarball shows its help and validates the example it brings', async () => {
    expect((await firstlight('--help')).stdout).toContain('Usage: firstlight')
    expect((await firstlight('check', join(installed, 'examples', 'firstlight.yaml'))).stdout).toContain('is valid')
  })

  it.each([1, 2])('the packed tarball serves on %i workers, and stops with 0 on SIGTERM', async (workers) => {
    const config = join(folder, 'firstlight.yaml')
    writeFileSync(
      config,
      'listen: 127.0.0.1:0\nclusters: [{ id: one, pools: [{ model: m, engines: [{ id: a, url: "http://127.0.0.1:9" }] }] }]\n',
    )
    const child = spawn(process.execPath, [bin, 'serve', '--workers', String(workers)], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const exit = ended(child)
    const [, url] = await printed(child, /"url":"(http:[^"]+)"/)
    expect(await (await fetch(`${url}/v1/models`)).json()).toMatchObject({ data: [{ id: 'm' }] })
    expect(await (await fetch(`${url}/dashboard`)).text()).toContain('<title>Firstlight dashboard</title>')
    child.kill('SIGTERM')
    expect(await exit).toBe(0)
  })
})

describe('the entries of the package', () => {
  const packages = join(root, 'node_modules')
  const program = (file: string): string => join(folder, file)
  let fleet: RunningFleet

  beforeAll(async () => {
    for (const name of ['typescript', '@types/node', 'undici-types']) {
      const link = join(folder, 'node_modules', name)
      mkdirSync(dirname(link), { recursive: true })
      symlinkSync(join(packages, name), link)
    }
    cpSync(join(installed, 'examples'), folder, { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{ "type": "module" }')
    fleet = await startFleet({ engines: 1 })
  })

  afterAll(() => fleet.close())

  const start = (file: string, env: Record<string, string> = {}): ChildProcess =>
    spawn(process.execPath, [program(file)], {
      cwd: folder,
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ENGINE_URL: fleet.urls[0]!, MODEL: 'sim', PORT: '0', ...env },
    })

  /** Writes the programs of docs/embed.md to files, and returns their names by runtime. */
  function embedSnippets(): { readonly node: string[]; readonly worker: string[] } {
    const text = readFileSync(join(installed, 'docs', 'embed.md'), 'utf8')
    const snippets = [...text.matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code!)
    const files = snippets.map((code, at) => {
      writeFileSync(program(`snippet-${at}.ts`), code)
      return { name: `snippet-${at}.ts`, isWorker: code.includes("'firstlight/worker'") }
    })
    const named = (isWorker: boolean): string[] =>
      files.flatMap((file) => (file.isWorker === isWorker ? file.name : []))
    return { node: named(false), worker: named(true) }
  }

  const body = JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 })
  const chat = (url: string, headers: Record<string, string>): Promise<Response> =>
    fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    })

  it('the entries of the package have types that fit the examples', async () => {
    const compilerOptions = {
      strict: true,
      noEmit: true,
      skipLibCheck: true,
      module: 'NodeNext',
      target: 'ES2024',
      lib: ['ES2024'],
    }
    const check = async (types: string[], files: string[]): Promise<void> => {
      const config = join(folder, 'tsconfig.json')
      writeFileSync(config, JSON.stringify({ compilerOptions: { ...compilerOptions, types }, files }))
      await execute(process.execPath, [join(packages, 'typescript/bin/tsc'), '-p', config])
    }
    await check(['node'], ['embed-node.ts', 'embed-hono.ts', 'embed-groups.ts', 'embed-ports.ts'])
    await check([join(root, 'worker-configuration.d.ts')], ['embed-worker/worker.ts'])
    const { node, worker } = embedSnippets()
    expect([node.length, worker.length]).toEqual([2, 1])
    await check(['node'], node)
    await check([join(root, 'worker-configuration.d.ts')], worker)
    writeFileSync(program('wrong.ts'), "import { openGateway } from 'firstlight/node'\nawait openGateway(5)\n")
    await expect(check(['node'], ['wrong.ts'])).rejects.toMatchObject({
      stdout: expect.stringContaining("'number' is not assignable to parameter of type 'string'") as string,
    })
  })

  it.each([
    ['embed-node.ts', '', { 'x-team': 'a' }],
    ['embed-hono.ts', '/llm', { authorization: 'Bearer secret' }],
    ['embed-groups.ts', '/llm', { authorization: 'Bearer secret' }],
  ])('%s authenticates clients itself and serves them', async (file, prefix, headers) => {
    const child = start(file, { TEAM_TOKEN: 'secret' })
    const exit = ended(child)
    const [, port] = await printed(child, /port: (\d+)/)
    const url = `http://127.0.0.1:${port}${prefix}`
    expect((await chat(url, {})).status).toBe(401)
    const response = await chat(url, headers as Record<string, string>)
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ object: 'chat.completion', usage: { completion_tokens: 4 } })
    child.kill('SIGTERM')
    expect(await exit).toBe(0)
  })

  it('embed-groups.ts has the routes of each group behind the middleware of that group only', async () => {
    const child = start('embed-groups.ts', { TEAM_TOKEN: 'team', OPERATOR_TOKEN: 'operator' })
    const exit = ended(child)
    const [, port] = await printed(child, /port: (\d+)/)
    const statusOf = async (path: string, token: string): Promise<number> =>
      (await fetch(`http://127.0.0.1:${port}${path}`, { headers: { authorization: `Bearer ${token}` } })).status
    expect(await statusOf('/llm/v1/models', 'team')).toBe(200)
    expect(await statusOf('/ops/v1/firstlight/fleet', 'operator')).toBe(200)
    expect(await statusOf('/ops/metrics', 'operator')).toBe(200)
    expect(await statusOf('/ops/v1/firstlight/fleet', 'team')).toBe(401)
    expect(await statusOf('/llm/v1/firstlight/fleet', 'team')).toBe(404)
    expect(await statusOf('/ops/v1/models', 'operator')).toBe(404)
    child.kill('SIGTERM')
    expect(await exit).toBe(0)
  })

  it('embed-ports.ts calls a gateway over its own ports', async () => {
    const child = start('embed-ports.ts')
    const exit = ended(child)
    await printed(child, /^200 .*"object":"chat.completion"/m)
    expect(await exit).toBe(0)
  })

  it('embed-worker runs in workerd behind its own authentication', async () => {
    const { build } = await import('esbuild')
    const { outputFiles } = await build({
      entryPoints: [program('embed-worker/worker.ts')],
      bundle: true,
      write: false,
      format: 'esm',
      external: ['cloudflare:workers'],
    })
    const config = `open: true\nclusters: [{ id: one, pools: [{ model: sim, engines: [{ id: a, url: "${fleet.urls[0]!}" }] }] }]`
    const object = (className: string) => ({ className, useSQLite: true })
    const worker = new Miniflare(
      convertV4MiniflareOptions({
        name: 'edge',
        modules: true,
        script: outputFiles[0]!.text,
        compatibilityDate: '2026-10-23',
        compatibilityFlags: ['enable_request_signal'],
        bindings: { FIRSTLIGHT_CONFIG: config },
        durableObjects: { CLUSTER: object('ClusterObject'), TTFT: object('TtftObject') },
      }),
    )
    try {
      const url = (await worker.ready).href.replace(/\/$/, '')
      expect((await chat(url, {})).status).toBe(401)
      const response = await chat(url, { 'cf-access-jwt-assertion': 'signed' })
      expect(await response.json()).toMatchObject({ object: 'chat.completion' })
      expect((await fetch(`${url}/health`)).status).toBe(200)
      expect((await fetch(`${url}/v1/models`)).status).toBe(401)
      const signed = { headers: { 'cf-access-jwt-assertion': 'signed' } }
      expect((await fetch(`${url}/v1/models`, signed)).status).toBe(200)
      expect((await fetch(`${url}/v1/firstlight/fleet`, signed)).status).toBe(404)
    } finally {
      await worker.dispose()
    }
  })
})
