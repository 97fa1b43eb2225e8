/** Generated workloads. */
import { chance } from './chance.ts'
import { keysOf, type Trace, type TraceRequest } from './trace.ts'

/** Generates unique block ids. */
class Ids {
  #next = 1

  take(count: number): number[] {
    const first = this.#next
    this.#next += count
    return Array.from({ length: count }, (_, at) => first + at)
  }

  /** Continues with the ids of a user, which no other user has. */
  ofUser(user: number): void {
    this.#next = (user + 1) * IDS_PER_USER
  }
}

const IDS_PER_USER = 2 ** 24

interface PrefixWorkload {
  readonly name: string
  readonly requests: number
  readonly promptTokens: number
  readonly outputTokens: number
  /** Number of shared prefixes. */
  readonly prefixes: number
  /** Share of the requests with the first prefix. Absent: all prefixes are alike. */
  readonly hotShare?: number
  /** Share of the prefix in a prompt of usual length. */
  readonly prefixShare: number
  /** 0.5: lengths are uniform between half and one and a half of the nominal length. */
  readonly varyPrompt: number
  readonly varyOutput: number
  readonly blockTokens: number
  readonly seed: number
}

/** Prompts that share a few long prefixes, all at once. Send them with a concurrency limit, or as one burst. */
export function sharedPrefixes(workload: PrefixWorkload): Trace {
  const random = chance(workload.seed)
  const ids = new Ids()
  const { blockTokens, hotShare } = workload
  const prefixes = Array.from({ length: workload.prefixes }, () =>
    ids.take(Math.floor((workload.promptTokens * workload.prefixShare) / blockTokens)),
  )
  const varied = (tokens: number, by: number) => Math.max(1, Math.round(tokens * (1 + by * (2 * random() - 1))))
  const requests = Array.from({ length: workload.requests }, (): TraceRequest => {
    const promptTokens = varied(workload.promptTokens, workload.varyPrompt)
    const blocks = Math.floor(promptTokens / blockTokens)
    const isHot = hotShare !== undefined && random() < hotShare
    const prefix = prefixes[isHot ? 0 : Math.floor(random() * prefixes.length)]!.slice(0, blocks)
    const outputTokens = varied(workload.outputTokens, workload.varyOutput)
    return {
      atMs: 0,
      promptTokens,
      outputTokens,
      blocks: keysOf([...prefix, ...ids.take(blocks - prefix.length)]),
      session: null,
      chain: null,
      thinkMs: 0,
    }
  })
  return { name: workload.name, blockTokens, requests }
}

/** Prompts of about 7,000 tokens, half of them a shared prefix, with outputs of about 200: a usual case of benches. */
export const longSharedPrefixes = (
  workload: Pick<PrefixWorkload, 'name' | 'requests' | 'prefixes' | 'hotShare' | 'seed'>,
): Trace =>
  sharedPrefixes({
    promptTokens: 7000,
    outputTokens: 200,
    prefixShare: 0.5,
    varyPrompt: 0.8,
    varyOutput: 0.8,
    blockTokens: 512,
    ...workload,
  })

export interface RoundsWorkload {
  readonly name: string
  readonly users: number
  readonly rounds: number
  /** Shared by all users; a history per user follows. */
  readonly systemTokens: number
  readonly historyTokens: number
  readonly questionTokens: number
  readonly answerTokens: number
  /** Time between the starts of two users, and between an answer and the next question. */
  readonly joinMs: number
  readonly thinkMs: number
  readonly blockTokens: number
  /** True if clients send a session id. */
  readonly named: boolean
  /** Number of the first user. Prompts of equal users are equal in all runs. Absent: users are not numbered. */
  readonly firstUser?: number
  /** Sizes of a user's rounds, instead of `questionTokens` and `answerTokens`. */
  readonly roundsOf?: (user: number) => readonly RoundSize[]
}

export interface RoundSize {
  readonly questionTokens: number
  readonly answerTokens: number
}

/** Users with one question after another. Each prompt repeats the previous conversation. */
export function multiRound(workload: RoundsWorkload): Trace {
  const ids = new Ids()
  const { blockTokens } = workload
  const system = ids.take(Math.floor(workload.systemTokens / blockTokens))
  const requests: TraceRequest[] = []
  for (let place = 0; place < workload.users; place += 1) {
    const user = (workload.firstUser ?? 0) + place
    if (workload.firstUser !== undefined) ids.ofUser(user)
    const conversation = [...system]
    const chain = `user-${user}`
    let promptTokens = workload.systemTokens + workload.historyTokens
    const sizes = workload.roundsOf?.(user)
    for (let round = 0; round < workload.rounds; round += 1) {
      const { questionTokens, answerTokens } = sizes?.[round] ?? workload
      promptTokens += questionTokens
      conversation.push(...ids.take(Math.max(0, Math.floor(promptTokens / blockTokens) - conversation.length)))
      requests.push({
        atMs: place * workload.joinMs + round * workload.thinkMs,
        promptTokens,
        outputTokens: answerTokens,
        blocks: keysOf(conversation),
        session: workload.named ? chain : null,
        chain,
        thinkMs: workload.thinkMs,
      })
      promptTokens += answerTokens
    }
  }
  return { name: workload.name, blockTokens, requests: requests.sort((one, other) => one.atMs - other.atMs) }
}
