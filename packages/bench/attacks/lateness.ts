/** A gateway that is itself short of CPU or of file descriptors: nothing of that is an engine's failure. */
import { setTimeout as sleep } from 'node:timers/promises'
import { existsSync } from 'node:fs'
import { chat, documentOf, summary, type Answer } from './client.ts'
import type { Figure } from './figure.ts'
import { Site, type Gateway } from './processes.ts'

const BURST = 1_000
const SPINNERS = 4
/** Codes that blame the engines, with or without a retry budget that is exhausted. */
const UNAVAILABLE: ReadonlySet<string> = new Set(['no_engine_available', 'retry_budget_exhausted'])
const CONNECT_MS = 1_000
const CPU = 0

/** Serial: each takes the machine. */
export async function lateness(note: (line: string) => void): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [name, run] of Object.entries({
    'CPU load on its core': besideLoad,
    'stopped for 2 s': stopped,
    '256 descriptors': fewDescriptors,
  })) {
    note(`own lateness: ${name}`)
    figures.push(...(await run(name)))
  }
  return figures
}

async function besideLoad(name: string): Promise<Figure[]> {
  return withGateway(name, pinned().length > 0 ? { cpu: CPU } : {}, async (site, gateway) => {
    const spinners = Array.from({ length: SPINNERS }, () =>
      site.run([...pinned(), process.execPath, '-e', 'for (;;);']),
    )
    try {
      return [...(await burst(gateway, BURST)), ...(await burst(gateway, BURST))]
    } finally {
      for (const spinner of spinners) spinner.kill('SIGKILL')
    }
  })
}

/** SIGSTOP in the middle of a burst: time limits run out while what they wait for has happened. */
async function stopped(name: string): Promise<Figure[]> {
  return withGateway(name, {}, async (_site, gateway) => {
    const answers = burst(gateway, BURST)
    for (let at = 0; at < 2; at++) {
      await sleep(at === 0 ? 150 : 500)
      gateway.signal('SIGSTOP')
      await sleep(2 * CONNECT_MS)
      gateway.signal('SIGCONT')
    }
    return answers
  })
}

const fewDescriptors = (name: string): Promise<Figure[]> =>
  withGateway(name, { descriptors: 256 }, (_site, gateway) => burst(gateway, 500))

const burst = (gateway: Gateway, clients: number): Promise<Answer[]> =>
  Promise.all(Array.from({ length: clients }, () => chat(gateway.port, { user: 'ttft=300 tokens=3 itl=20' })))

const TASKSET = '/usr/bin/taskset'
const pinned = (): string[] => (existsSync(TASKSET) ? [TASKSET, '-c', String(CPU)] : [])

async function withGateway(
  name: string,
  limits: { readonly cpu?: number; readonly descriptors?: number },
  attack: (site: Site, gateway: Gateway) => Promise<Answer[]>,
): Promise<Figure[]> {
  const site = new Site()
  try {
    const { urls } = await site.engines(3)
    const gateway = await site.gateway(documentOf(urls, { pool: { limits: { connect_ms: CONNECT_MS } } }), limits)
    const circuits = new OpenCircuits(gateway)
    const answers = await attack(site, gateway)
    await circuits.look()
    circuits.stop()
    const blamed = await gateway.sum('firstlight_engine_failures_total')
    const unavailable = answers.filter(({ code }) => UNAVAILABLE.has(code ?? '')).length
    const again = await chat(gateway.port)
    return [
      {
        attack: `own lateness: ${name}`,
        figure: 'own_lateness_failures',
        value: circuits.opened + blamed + unavailable,
        goal: 0,
        note:
          `${circuits.opened} circuits seen open, ${blamed} attempts blamed on engines, ${unavailable} clients ` +
          'refused because no engine was available',
      },
      {
        attack: `own lateness: ${name}`,
        figure: 'clients_not_served',
        value: answers.filter(({ complete }) => !complete).length,
        note: `${summary(answers)}; afterwards ${again.status}`,
      },
    ]
  } finally {
    await site.stop()
  }
}

/** Counts engines whose circuit was not closed in any of the samples taken. */
class OpenCircuits {
  readonly #gateway: Gateway
  readonly #seen = new Set<string>()
  readonly #timer: NodeJS.Timeout

  constructor(gateway: Gateway) {
    this.#gateway = gateway
    this.#timer = setInterval(() => void this.look().catch(() => {}), 500)
  }

  get opened(): number {
    return this.#seen.size
  }

  async look(): Promise<void> {
    for (const { name, labels, value } of await this.#gateway.metrics()) {
      if (name !== 'firstlight_engine_circuit' || value === 0 || labels.includes('state="closed"')) continue
      this.#seen.add(/engine="([^"]*)"/.exec(labels)?.[1] ?? labels)
    }
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}
