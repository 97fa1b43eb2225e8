import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'
import { until } from '../wait.ts'

const signals = new URL('../../src/platform/node/signals.ts', import.meta.url).href
/** Prints each signal it receives, and exits at the second one. */
const script = `
const { endedBy, watchSignals } = await import(${JSON.stringify(signals)})
const { stop, stopNow } = watchSignals()
const alive = setInterval(() => {}, 1000)
stop.addEventListener('abort', () => console.log('stop', JSON.stringify(endedBy(stop))))
stopNow.addEventListener('abort', () => { console.log('now'); clearInterval(alive); process.exit(0) })
console.log('ready')`

describe('a process that serves', () => {
  // Closing a terminal and `kill -HUP` send SIGHUP. Without a handler it would end the process and cut all streams.
  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    'ends in order at %s, and at once at a second signal',
    async (signal) => {
      const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      let output = ''
      child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
      const exited = once(child, 'exit')
      const ended = (): boolean => child.exitCode !== null || child.signalCode !== null
      await until(() => output.includes('ready') || ended())
      child.kill(signal)
      await until(() => output.includes('stop') || ended())
      // Signals within 300 ms count as one.
      await until(() => ended() || (child.kill('SIGTERM') && output.includes('now')), 100)
      expect(await exited).toEqual([0, null])
      // Other servers reload at SIGHUP, so the log shows the right signal.
      const next = signal === 'SIGHUP' ? ',"next":"Use SIGUSR2 to reload the configuration without a restart."' : ''
      expect(output).toBe(`ready\nstop {"signal":"${signal}"${next}}\nnow\n`)
    },
  )
})

const cli = new URL('../../src/cli/process-io.ts', import.meta.url).href

// Node's default handler opens the inspector, through which every key in the process can be read.
it.skipIf(process.platform === 'win32')(
  'a process that serves opens no inspector at SIGUSR1, and goes on',
  async () => {
    const child = spawn(
      process.execPath,
      [
        '--input-type=module',
        '-e',
        `import inspector from 'node:inspector'
       const { processIo } = await import(${JSON.stringify(cli)})
       processIo()
       process.stdin.on('data', () => { console.log('inspector', inspector.url()); process.exit(0) })
       console.log('ready')`,
      ],
      { stdio: ['pipe', 'pipe', 'pipe'] },
    )
    let output = ''
    let warned = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
    child.stderr.setEncoding('utf8').on('data', (text: string) => (warned += text))
    const exited = once(child, 'exit')
    await until(() => output.includes('ready') || child.exitCode !== null)
    child.kill('SIGUSR1')
    child.stdin.write('look')
    expect(await exited).toEqual([0, null])
    expect(output).toBe('ready\ninspector undefined\n')
    expect(warned).not.toContain('Debugger')
  },
)

describe('a SIGTERM in the moment in which the port opens', () => {
  const folder = mkdtempSync(join(tmpdir(), 'firstlight-signals-'))
  afterAll(() => rmSync(folder, { recursive: true }))
  const config = join(folder, 'firstlight.yaml')
  writeFileSync(
    config,
    `listen: 127.0.0.1:0
open: true
clusters: [{ id: c, pools: [{ model: m, engines: [{ id: a, url: http://127.0.0.1:9 }] }] }]
`,
  )
  const program = fileURLToPath(new URL('../../bin/program.ts', import.meta.url))

  const EVENTS_OF = ['--cluster', 'c', '--model', 'm', '--block-tokens', '16', '--engine', 'a']

  /** Loaded before the program: sends the signal from the first server of the thread that listens. */
  const sender = (isMain: boolean): string => `
    import net from 'node:net'
    import { isMainThread } from 'node:worker_threads'
    const { listen } = net.Server.prototype
    let sent = isMainThread !== ${isMain}
    net.Server.prototype.listen = function (...given) {
      this.prependOnceListener('listening', () => {
        if (!sent) process.kill(process.pid, 'SIGTERM')
        sent = true
      })
      return listen.apply(this, given)
    }`

  it.skipIf(process.platform === 'win32').each([
    ['serve', true, ['--config', config]],
    ['serve with threads', false, ['--config', config, '--workers', '2']],
    ['demo', true, ['--engines', '1', '--listen', '127.0.0.1:0']],
    ['fleet', true, ['--engines', '1', '--port', '0']],
    [
      'bridge',
      true,
      [
        '--gateway',
        'http://127.0.0.1:9',
        '--listen',
        '127.0.0.1:0',
        '--events',
        'tcp://127.0.0.1:9',
        '--replay',
        'tcp://127.0.0.1:9',
        ...EVENTS_OF,
      ],
    ],
  ])('a SIGTERM as the port opens ends %s in order', { timeout: 60_000 }, async (name, isMain, flags) => {
    const preload = `data:text/javascript,${encodeURIComponent(sender(isMain))}`
    const child = spawn(process.execPath, ['--import', preload, program, name.split(' ')[0]!, ...flags], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let stdout = ''
    for (const output of [child.stdout, child.stderr])
      output.setEncoding('utf8').on('data', (text: string) => (stdout += text))
    expect({ exit: await once(child, 'exit'), stdout }).toEqual({ exit: [0, null], stdout })
  })
})
