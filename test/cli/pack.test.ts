import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

/**
 * Unpacks the tarball into an empty folder with only its declared dependencies. They are linked, because the test has
 * no network. `npm run pack:check` does the same with a real `npm install`.
 */
const execute = promisify(execFile)
const root = fileURLToPath(new URL('../..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'firstlight-pack-'))
const home = join(folder, 'node_modules', 'firstlight')
const bin = join(home, 'bin', 'firstlight.mjs')

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
  mkdirSync(home, { recursive: true })
  await execute('tar', ['-xzf', join(folder, tarball), '-C', home, '--strip-components=1'])
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

const firstlight = (...argv: string[]) => execute(process.execPath, [bin, ...argv], { cwd: folder })

/** Resolves with the first match in the child's output; rejects if the child ends before. */
async function said(child: ChildProcess, pattern: RegExp): Promise<RegExpMatchArray> {
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
  it('contains no sources, tests or benches', () => {
    expect(readdirSync(home).sort()).toEqual([
      'CHANGELOG.md',
      'LICENSE',
      'README.md',
      'bin',
      'dist',
      'docs',
      'examples',
      'package.json',
    ])
    expect(readdirSync(join(home, 'dist')).filter((name) => !name.endsWith('.map'))).toEqual([
      'dashboard',
      'licences.txt',
      'node.mjs',
    ])
  })

  it('has one byte per character, in lines short enough for a stack trace, because V8 keeps it in memory', () => {
    const bundle = readFileSync(join(home, 'dist', 'node.mjs'))
    expect(bundle.findIndex((byte) => byte > 0x7f)).toBe(-1)
    expect(
      Math.max(
        ...bundle
          .toString('latin1')
          .split('\n')
          .map(({ length }) => length),
      ),
    ).toBeLessThan(2_000)
  })

  it('contains the licences of its dependencies', () => {
    const licences = readFileSync(join(home, 'dist', 'licences.txt'), 'utf8')
    for (const name of ['@hono/node-server', 'hono', 'js-yaml', 'preact', 'zod'])
      expect(licences).toMatch(new RegExp(`^${name}\n=+\n\n[^]*?Copyright`, 'm'))
  })

  it('shows its help and validates the example it brings', async () => {
    expect((await firstlight('--help')).stdout).toContain('Usage: firstlight')
    expect((await firstlight('check', join(home, 'examples', 'firstlight.yaml'))).stdout).toContain('is valid')
  })

  it.each([1, 2])('serves on %i workers, and stops with 0 on SIGTERM', async (workers) => {
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
    const [, url] = await said(child, /"url":"(http:[^"]+)"/)
    expect(await (await fetch(`${url}/v1/models`)).json()).toMatchObject({ data: [{ id: 'm' }] })
    expect(await (await fetch(`${url}/dashboard`)).text()).toContain('<title>Firstlight dashboard</title>')
    child.kill('SIGTERM')
    expect(await exit).toBe(0)
  })
})
