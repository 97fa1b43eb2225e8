/** Slow responses for one client, and their effect on another client of the same three healthy engines. */
import { setTimeout as sleep } from 'node:timers/promises'
import { atRate, chat, documentOf, failures, summary } from './client.ts'
import type { Figure } from './figure.ts'
import { Site } from './processes.ts'

const ATTACK_MS = 20_000
const FIRST_BYTE_MS = 3_000
const SLOW = 'ttft=10000 tokens=1'
const VICTIM_PER_S = 20

interface Attack {
  readonly name: string
  readonly perS: number
  readonly stream: boolean
  /** Limits of the pool beside `first_byte_ms`. */
  readonly limits?: object
}

const ATTACKS: readonly Attack[] = [
  { name: 'none', perS: 0, stream: false },
  { name: '1/s answers of 10 s, not streamed', perS: 1, stream: false },
  { name: '5/s answers of 10 s, not streamed', perS: 5, stream: false },
  {
    name: '5/s answers of 10 s, not streamed, answer_ms 3000',
    perS: 5,
    stream: false,
    limits: { answer_ms: FIRST_BYTE_MS },
  },
  { name: '5/s streams with a first token after 10 s', perS: 5, stream: true },
]

/** The attacks run concurrently, each with its own engines and gateway. */
export const victim = async (): Promise<Figure[]> => (await Promise.all(ATTACKS.map(underAttack))).flat()

async function underAttack({ name, perS, stream, limits }: Attack): Promise<Figure[]> {
  const site = new Site()
  try {
    const { urls } = await site.engines(3)
    const keys = ['victim', 'attacker'].map((client) => ({ name: client, secret: `${client}-key-of-no-use-elsewhere` }))
    const gateway = await site.gateway(
      documentOf(urls, { keys, pool: { limits: { first_byte_ms: FIRST_BYTE_MS, ...limits } } }),
    )
    const victims = atRate(VICTIM_PER_S, ATTACK_MS, () =>
      chat(gateway.port, { key: keys[0]!.secret, user: 'ttft=20 tokens=4 itl=5' }),
    )
    const attackers = atRate(perS, ATTACK_MS - 1_000, () =>
      chat(gateway.port, { key: keys[1]!.secret, user: SLOW, stream }),
    )
    const answers = await victims
    // Attackers that still wait end with the site.
    const attacked = await Promise.race([attackers, sleep(12_000).then(() => [])])
    const figure = perS === 0 ? 'failures_without_attack' : 'victim_failures'
    return [
      {
        attack: `slow answers: ${name}`,
        figure,
        value: failures(answers).length,
        goal: 0,
        note: `victim: ${summary(answers)}; attacker: ${summary(attacked)}`,
      },
    ]
  } finally {
    await site.stop()
  }
}
