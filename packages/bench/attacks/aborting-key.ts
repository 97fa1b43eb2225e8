/** One key aborts all its requests, at once or after the gateway expected their first token. No engine may be ejected. */
import { atRate, chat, documentOf, failures, summary } from './client.ts'
import type { Figure } from './figure.ts'
import { Site } from './processes.ts'

const ATTACK_MS = 20_000
const VICTIM_PER_S = 10

interface Attack {
  readonly name: string
  readonly perS: number
  /** Time after which the client leaves, ms. */
  readonly limitMs: number
  readonly stream: boolean
}

const ATTACKS: readonly Attack[] = [
  { name: 'leaves after 50 ms', perS: 20, limitMs: 50, stream: true },
  { name: 'first tokens after 10 s, leaves after 4 s', perS: 5, limitMs: 4_000, stream: true },
  { name: 'answers of 10 s, not streamed, leaves after 4 s', perS: 5, limitMs: 4_000, stream: false },
]

/** The attacks run at the same time, each with its own engines and gateway. */
export const abortingKey = async (): Promise<Figure[]> => (await Promise.all(ATTACKS.map(underAttack))).flat()

async function underAttack({ name, perS, limitMs, stream }: Attack): Promise<Figure[]> {
  const site = new Site()
  try {
    const { urls } = await site.engines(3)
    const keys = ['victim', 'attacker'].map((client) => ({ name: client, secret: `${client}-key-of-no-use-elsewhere` }))
    const gateway = await site.gateway(documentOf(urls, { keys }))
    const victims = atRate(VICTIM_PER_S, ATTACK_MS, () =>
      chat(gateway.port, { key: keys[0]!.secret, user: 'ttft=20 tokens=4 itl=5' }),
    )
    const attackers = atRate(perS, ATTACK_MS - limitMs, () =>
      chat(gateway.port, { key: keys[1]!.secret, user: 'ttft=10000 tokens=1', stream, limitMs }),
    )
    const [answers, attacked] = await Promise.all([victims, attackers])
    // An open circuit is a condition, too.
    const ejected = gateway.log.filter(({ event }) => event === 'engine_down')
    const attack = `aborting key: ${name}`
    return [
      {
        attack,
        figure: 'forged_ejections',
        value: ejected.length,
        goal: 0,
        note: `victim: ${summary(answers)}; attacker: ${summary(attacked)}; ${ejected.map((line) => String(line['condition'])).join(', ')}`,
      },
      { attack, figure: 'victim_failures_beside_aborts', value: failures(answers).length, goal: 0 },
    ]
  } finally {
    await site.stop()
  }
}
