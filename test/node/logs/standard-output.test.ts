import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { until } from '../../wait.ts'

describe('standard output of a process', () => {
  const source = (file: string): string =>
    JSON.stringify(new URL(`../../../src/platform/node/${file}`, import.meta.url).href)

  const script = (body: string): string => `
const { openLog } = await import(${source('log.ts')})
// As in the command line: the runtime then makes a pipe non-blocking.
process.stdout.on('error', () => {})
const log = openLog('info')
const say = (word) => process.stderr.write(word + '\\n')
${body}`

  function started(
    body: string,
    stdout: 'pipe' | number,
  ): { readonly child: ChildProcess; printed(word: string): Promise<string> } {
    const child = spawn(process.execPath, ['--input-type=module', '-e', script(body)], {
      stdio: ['pipe', stdout, 'pipe'],
    })
    let output = ''
    child.stderr!.setEncoding('utf8').on('data', (text: string) => (output += text))
    return {
      child,
      async printed(word) {
        await until(() => output.includes(word) || child.exitCode !== null)
        return output
      },
    }
  }

  interface Line {
    readonly event: string
    readonly n: number
  }

  /** Lines of a process until its end. */
  async function linesOf(body: string): Promise<Line[]> {
    const { child } = started(body, 'pipe')
    let text = ''
    child.stdout!.setEncoding('utf8').on('data', (piece: string) => (text += piece))
    await once(child, 'close')
    return linesIn(text)
  }

  const linesIn = (text: string): Line[] =>
    text
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Line)

  const inOrder = (count: number): number[] => Array.from({ length: count }, (_, n) => n)

  const three = `for (let n = 0; n < 3; n++) log.info('one', { n })`

  it.each([
    ['returns', ''],
    ['calls process.exit', 'process.exit(3)'],
    ['has an uncaught error', `throw new Error('uncaught')`],
    ['has an unhandled rejection', `await Promise.reject(new Error('unhandled'))`],
    ['logs while it exits', `process.on('exit', () => log.info('last', { n: 3 }))\nprocess.exit(0)`],
  ])('standard output of a process has all lines in order if the process %s', async (_, end) => {
    const lines = await linesOf(`${three}\n${end}`)
    expect(lines.map(({ n }) => n)).toEqual(inOrder(end.includes('last') ? 4 : 3))
  })

  it('standard output of a process has all lines up to the last warning if the process is killed', async () => {
    const lines = await linesOf(`${three}\nlog.warn('careful', { n: 3 })\nprocess.kill(process.pid, 'SIGKILL')`)
    expect(lines.map(({ n }) => n)).toEqual(inOrder(4))
  })

  it('standard output of a process has a line soon, although the process goes on', async () => {
    const { child } = started(`log.info('one')\nprocess.stdin.resume()`, 'pipe')
    const [bytes] = (await once(child.stdout!, 'data')) as [Buffer]
    child.stdin!.end()
    expect(JSON.parse(String(bytes))).toMatchObject({ event: 'one' })
  })

  /** Logs lines of 90 bytes in one turn, then the number of writes. */
  const countWrites = (lines: number): string => `
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
const { writeSync } = fs
let writes = 0
fs.writeSync = (...given) => {
  writes += 1
  return writeSync(...given)
}
syncBuiltinESMExports()
for (let n = 0; n < ${lines}; n++) log.info('one', { n })
setTimeout(() => log.info('writes', { n: writes }), 60)`

  it('standard output of a process has the lines of one turn in one write', async () => {
    expect((await linesOf(countWrites(20))).at(-1)).toMatchObject({ event: 'writes', n: 1 })
  })

  it('standard output of a process has 18 KB in pieces of 4 KB if it is a pipe', async () => {
    expect((await linesOf(countWrites(200))).at(-1)).toMatchObject({ event: 'writes', n: 5 })
  })

  it('standard output of a process has 18 KB in one write if it is a file', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'firstlight-log-'))
    const path = join(folder, 'log')
    const file = openSync(path, 'a')
    try {
      await once(started(countWrites(200), file).child, 'close')
      const lines = linesIn(readFileSync(path, 'utf8'))
      expect(lines.slice(0, -1).map(({ n }) => n)).toEqual(inOrder(200))
      expect(lines.at(-1)).toMatchObject({ event: 'writes', n: 1 })
    } finally {
      closeSync(file)
      rmSync(folder, { recursive: true })
    }
  })

  it('standard output of a process never mixes lines of threads, and has those of a thread that exits with the process', async () => {
    const lines = await linesOf(`
import { Worker } from 'node:worker_threads'
const { threadLines } = await import(${source('standard-output.ts')})
const code = \`
const { workerData, parentPort } = await import('node:worker_threads')
const { openLog } = await import(${source('log.ts')})
const { threadOutput } = await import(${source('standard-output.ts')})
const log = openLog('info', threadOutput(workerData.memory))
const { base } = workerData
// No more than the buffer holds, and more than a pipe.
for (let n = 0; n < 1_000; n++) log.info('thread', { n: base + n, text: 'x'.repeat(n % 700) })
parentPort.postMessage('logged')
setInterval(() => {}, 1_000)\`
const url = new URL('data:text/javascript,' + encodeURIComponent(code))
let logged = 0
for (const base of [0, 1_000])
  new Worker(url, { workerData: { base, memory: threadLines().memory } }).on('message', () => {
    logged += 1
    if (logged === 2) process.exit(0)
  })`)
    const numbers = lines.map(({ n }) => n)
    expect(numbers.filter((n) => n < 1_000)).toEqual(inOrder(1_000))
    expect(numbers.filter((n) => n >= 1_000)).toEqual(inOrder(1_000).map((n) => n + 1_000))
  })

  it('standard output of a process never waits for a blocked reader, drops whole lines only, and counts them', async () => {
    const { child, printed } = started(
      `for (let n = 0; n < 40_000; n++) log.info('one', { n, text: 'x'.repeat(50) })
say('logged')
process.stdin.on('data', () => log.info('late')).on('end', () => process.exit(0))`,
      'pipe',
    )
    await printed('logged')
    let text = ''
    child.stdout!.setEncoding('utf8').on('data', (piece: string) => (text += piece))
    let writes = 0
    await until(() => {
      child.stdin!.write('.')
      writes += 1
      return text.includes('log_dropped')
    }, 20)
    child.stdin!.end()
    await once(child, 'close')
    const lines = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as { event: string; n?: number; lines?: number })
    const numbers = lines.flatMap(({ n }) => n ?? [])
    expect(numbers).toEqual(numbers.map((_, at) => at))
    expect(numbers.length).toBeGreaterThan(100)
    const dropped = lines.reduce((sum, { lines: lost = 0 }) => sum + lost, 0)
    expect(numbers.length + dropped).toBeGreaterThanOrEqual(40_000)
    expect(numbers.length + dropped).toBeLessThanOrEqual(40_000 + writes)
  })

  it('standard output of a process writes its last line at exit if the reader is only slow', async () => {
    const body = `for (let n = 0; n < 5000; n++) log.info('one', { n, text: 'x'.repeat(50) })\nprocess.exit(0)`
    expect((await linesOf(body)).map(({ n }) => n)).toEqual(inOrder(5000))
  })

  it.runIf(existsSync('/dev/full'))(
    'standard output of a process that finds no room on its disk fails no request, and is logged once',
    async () => {
      const full = openSync('/dev/full', 'w')
      const { child, printed } = started(`for (let n = 0; n < 3; n++) log.info('one')\nsay('went on')`, full)
      closeSync(full)
      expect(await printed('requests')).toBe(
        'went on\nThe log cannot be written (ENOSPC). Requests continue without it.\n',
      )
      expect(child.exitCode ?? (await once(child, 'exit'))[0]).toBe(0)
    },
  )
})
