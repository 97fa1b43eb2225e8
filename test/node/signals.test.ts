import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { describe, expect, it } from 'vitest'

const signals = new URL('../../src/platform/node/signals.ts', import.meta.url).href
/** Says what it was told, and ends when it is told a second time. */
const script = `
const { endedBy, watchSignals } = await import(${JSON.stringify(signals)})
const { stop, stopNow } = watchSignals()
const alive = setInterval(() => {}, 1000)
stop.addEventListener('abort', () => console.log('stop', JSON.stringify(endedBy(stop))))
stopNow.addEventListener('abort', () => { console.log('now'); clearInterval(alive); process.exit(0) })
console.log('ready')`

describe('a process that serves', () => {
  // A terminal that is closed, and `kill -HUP`, send the last one: unheard, it would cut every running stream.
  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('ends in order at %s, and at once at a second signal', async (signal) => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
    const exited = once(child, 'exit')
    const until = async (word: string): Promise<void> => {
      while (!said.includes(word) && child.exitCode === null && child.signalCode === null) await new Promise((resolve) => setTimeout(resolve, 10))
    }
    await until('ready')
    child.kill(signal)
    await until('stop')
    // Closer together they are one wish.
    await new Promise((resolve) => setTimeout(resolve, 350))
    child.kill('SIGTERM')
    expect(await exited).toEqual([0, null])
    // Who knows SIGHUP as a reload from other servers is told how that is done here.
    const next = signal === 'SIGHUP' ? ',"next":"SIGUSR2 takes a new configuration and goes on."' : ''
    expect(said).toBe(`ready\nstop {"signal":"${signal}"${next}}\nnow\n`)
  })
})
