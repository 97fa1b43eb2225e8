/**
 * Another client: `GET /health` in a closed loop, over one connection and over a new one each time, at the
 * gateway and, at the same moments, at an idle process (the control).
 * The control shows what the machine itself adds. `fork('prober.ts', [GATEWAY_PORT, CONTROL_PORT,
 * GATEWAY_PID])`; the message `begin` resets, `end` is answered with `Waits`.
 */
import { readFileSync } from 'node:fs'
import net from 'node:net'

export interface Waits {
  readonly probes: number
  readonly maxMs: number
  readonly controlMaxMs: number
  /**
   * The most CPU time that the gateway’s main thread used during one wait; null where there is no /proc. The time
   * it waited for other processes is not in it.
   */
  readonly cpuMaxMs: number | null
}

const EVERY_MS = 2
const [gatewayPort, controlPort, gatewayPid] = process.argv.slice(2).map(Number) as [number, number, number]

/** CPU time of the gateway's main thread, in milliseconds. */
function gatewayCpuMs(): number {
  try {
    return Number(readFileSync(`/proc/${gatewayPid}/task/${gatewayPid}/schedstat`, 'latin1').split(' ')[0]) / 1e6
  } catch {
    return Number.NaN
  }
}

class Loop {
  probes = 0
  #maxMs = 0
  #sentAt = 0
  #cpuAtMs = 0
  cpuMaxMs = 0
  #waiting = false
  readonly #port: number
  readonly #isKept: boolean
  #socket: net.Socket | null = null

  /** @param isKept one connection for all probes, else a new one for each */
  constructor(port: number, isKept: boolean) {
    this.#port = port
    this.#isKept = isKept
    this.#send()
  }

  reset(): void {
    this.probes = 0
    this.#maxMs = this.cpuMaxMs = 0
    this.#sentAt = performance.now()
    this.#cpuAtMs = gatewayCpuMs()
  }

  /** A running probe counts with its time so far. */
  get maxMs(): number {
    return Math.max(this.#maxMs, this.#waiting ? performance.now() - this.#sentAt : 0)
  }

  #send(): void {
    this.#cpuAtMs = gatewayCpuMs()
    this.#sentAt = performance.now()
    this.#waiting = true
    this.#socket ??= this.#connect()
    this.#socket.write('GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n')
  }

  #connect(): net.Socket {
    const socket = net.connect({ port: this.#port, host: '127.0.0.1', noDelay: true })
    socket.on('error', () => {})
    socket.on('close', () => {
      // The gateway has stopped: running probes never end.
      if (this.#socket === socket) this.#socket = null
    })
    socket.on('data', () => {
      if (!this.#waiting) return
      this.#waiting = false
      this.probes++
      this.#maxMs = Math.max(this.#maxMs, performance.now() - this.#sentAt)
      this.cpuMaxMs = Math.max(this.cpuMaxMs, gatewayCpuMs() - this.#cpuAtMs)
      if (!this.#isKept) {
        this.#socket = null
        socket.destroy()
      }
      setTimeout(() => this.#send(), EVERY_MS)
    })
    return socket
  }
}

const gateway = [true, false].map((isKept) => new Loop(gatewayPort, isKept))
const control = [true, false].map((isKept) => new Loop(controlPort, isKept))
process.on('message', (word) => {
  if (word === 'begin') for (const loop of [...gateway, ...control]) loop.reset()
  if (word === 'end')
    process.send!({
      probes: gateway.reduce((sum, { probes }) => sum + probes, 0),
      maxMs: longest(gateway),
      controlMaxMs: longest(control),
      cpuMaxMs: cpuOf(gateway),
    } satisfies Waits)
})
process.on('disconnect', () => process.exit(0))

function longest(loops: readonly Loop[]): number {
  return Math.max(...loops.map(({ maxMs }) => maxMs))
}

function cpuOf(loops: readonly Loop[]): number | null {
  const max = Math.max(...loops.map(({ cpuMaxMs }) => cpuMaxMs))
  return Number.isNaN(max) ? null : max
}
