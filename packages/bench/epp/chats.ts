/** Chats whose responses are checked to their end. */
import { Agent, request } from 'node:http'

interface ChatPlan extends Omit<ChatOptions, 'aborts'> {
  readonly port: number
  readonly requests: number
  readonly connections: number
  /** Every so many requests one is aborted after its first bytes; 0: none. */
  readonly abortEvery: number
  /** Called at the end of each request. */
  readonly onEnd?: () => void
}

export interface ChatCounts {
  readonly sent: number
  /** Complete streams. */
  readonly complete: number
  readonly aborted: number
  /** Neither complete nor aborted by the client. */
  readonly lost: number
}

type ChatEnd = 'complete' | 'aborted' | 'lost'

const NO_PACE = [0, 0] as const
const SHORT_BYTES = 900
/** A response that is silent for so long is lost. */
const SILENCE_MS = 60_000

const chatBody = (serial: number, { bytes = SHORT_BYTES, pace = NO_PACE }: ChatOptions): string =>
  JSON.stringify({
    model: 'fake',
    stream: true,
    user: `pace-${pace[0]}-${pace[1]}`,
    messages: [{ role: 'user', content: `${'lorem ipsum dolor '.repeat(bytes / 18)} ${serial}` }],
  })

interface ChatOptions {
  readonly aborts?: boolean
  /** Length of the prompt. Absent: short. */
  readonly bytes?: number
  /** Milliseconds of the engines to the first token, and between tokens. Absent: both 0. */
  readonly pace?: readonly [number, number]
}

/** Sends one chat. */
export function chat(port: number, agent: Agent, serial: number, options: ChatOptions = {}): Promise<ChatEnd> {
  const { aborts = false } = options
  return new Promise((resolve) => {
    const sent = request(
      {
        port,
        agent,
        host: '127.0.0.1',
        method: 'POST',
        path: '/v1/chat/completions',
        headers: { 'content-type': 'application/json' },
      },
      (answer) => {
        let tail = ''
        answer.setEncoding('latin1')
        answer.on('data', (text: string) => {
          tail = (tail + text).slice(-64)
          if (!aborts) return
          sent.destroy()
          resolve('aborted')
        })
        answer.on('end', () =>
          resolve(answer.statusCode === 200 && tail.includes('data: [DONE]') ? 'complete' : 'lost'),
        )
        answer.on('error', () => resolve(aborts ? 'aborted' : 'lost'))
      },
    )
    sent.setTimeout(SILENCE_MS, () => sent.destroy(new Error('no bytes in time')))
    sent.on('error', () => resolve(aborts ? 'aborted' : 'lost'))
    sent.end(chatBody(serial, options))
  })
}

export async function runChats({
  port,
  requests,
  connections,
  abortEvery,
  onEnd,
  ...options
}: ChatPlan): Promise<ChatCounts> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const counts = { complete: 0, aborted: 0, lost: 0 }
  let serial = 0
  const client = async (): Promise<void> => {
    while (serial < requests) {
      serial++
      const aborts = abortEvery > 0 && serial % abortEvery === 0
      counts[await chat(port, agent, serial, { ...options, aborts })]++
      onEnd?.()
    }
  }
  await Promise.all(Array.from({ length: connections }, client))
  agent.destroy()
  return { sent: requests, ...counts }
}
