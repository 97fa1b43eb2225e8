import { EventEmitter } from 'node:events'
import { describe, expect, it } from 'vitest'
import { terminalOf, type ProcessStdio } from '../../../src/cli/terminal.ts'

class FakeStream extends EventEmitter {
  isTTY = true
  isRaw = false
  isPaused = true
  columns = 80
  rows = 24
  written = ''

  setRawMode(on: boolean): this {
    this.isRaw = on
    return this
  }
  setEncoding(): this {
    return this
  }
  resume(): this {
    this.isPaused = false
    return this
  }
  pause(): this {
    this.isPaused = true
    return this
  }
  write(text: string): boolean {
    this.written += text
    return true
  }
}

class FakeProcess extends EventEmitter {
  stdin = new FakeStream()
  stdout = new FakeStream()
  env: Record<string, string> = { TERM: 'xterm' }
  killed: unknown[] = []
  kill(...how: unknown[]): boolean {
    return this.killed.push(how) > 0
  }
}

const stdioOf = (fake: FakeProcess) => fake as unknown as ProcessStdio
const listeners = (fake: FakeProcess) =>
  [fake, fake.stdin, fake.stdout].map((one) => one.eventNames().reduce((sum, name) => sum + one.listenerCount(name), 0))

describe('terminalOf', () => {
  it('terminalOf is undefined for a file or a terminal without cursor control', () => {
    const file = new FakeProcess()
    file.stdout.isTTY = false
    expect(terminalOf(stdioOf(file))).toBeUndefined()
    const dumb = new FakeProcess()
    dumb.env['TERM'] = 'dumb'
    expect(terminalOf(stdioOf(dumb))).toBeUndefined()
    expect(terminalOf(stdioOf(new FakeProcess()))).toBeDefined()
  })

  it('terminalOf restores the terminal’s modes and listeners', () => {
    const fake = new FakeProcess()
    const received: string[] = []
    const terminal = terminalOf(stdioOf(fake))!
    expect(listeners(fake)).toEqual([0, 0, 0])
    const undo = terminal.onResume(() => received.push('resume'))
    const giveBack = terminal.capture({
      onKeys: (keys) => received.push(keys),
      onResize: () => received.push('resize'),
      onEnd: () => received.push('end'),
    })
    expect([fake.stdin.isRaw, fake.stdin.isPaused]).toEqual([true, false])
    fake.stdin.emit('data', 'q')
    fake.stdout.emit('resize')
    fake.emit('SIGCONT')
    fake.emit('uncaughtExceptionMonitor', new Error('bug'))
    fake.emit('exit', 1)
    expect(received).toEqual(['q', 'resize', 'resume', 'end', 'end'])
    giveBack()
    undo()
    expect([fake.stdin.isRaw, fake.stdin.isPaused, ...listeners(fake)]).toEqual([false, true, 0, 0, 0])
  })

  it('terminalOf works without keys if standard input is not a terminal', () => {
    const fake = new FakeProcess()
    fake.stdin.isTTY = false
    terminalOf(stdioOf(fake))!.capture({ onKeys: () => undefined, onResize: () => undefined, onEnd: () => undefined })()
    expect([fake.stdin.isRaw, ...listeners(fake)]).toEqual([false, 0, 0, 0])
  })

  it('terminalOf defaults to 80 x 24, and suspends the whole process group', () => {
    const fake = new FakeProcess()
    Object.assign(fake.stdout, { columns: 0, rows: undefined })
    const terminal = terminalOf(stdioOf(fake))!
    expect(terminal.size()).toEqual({ columns: 80, rows: 24 })
    terminal.suspend()
    expect(fake.killed).toEqual([[0, 'SIGTSTP']])
  })
})
