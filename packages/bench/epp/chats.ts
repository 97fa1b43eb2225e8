/** Chats whose responses are checked to their end. */
import { Agent, request } from 'node:http'

interface ChatPlan {
  readonly port: number
  readonly requests: number
  readonly connections: number
  /** Every so many requests one is aborted after its first bytes; 0: none. */
  readonly abortEvery: number
}

interface ChatCounts {
  readonly sent: number
  /** Complete streams. */
  readonly complete: number
  readonly aborted: number
  /** Neither complete nor aborted by the client. */
  readonly lost: number
}

type ChatEnd = 'complete' | 'aborted' | 'lost'

export const chatBody = (serial: number): string =>
  JSON.stringify({
    model: 'fake',
    stream: true,
    messages: [{ role: 'user', content: `${'lorem ipsum dolor '.repeat(50)} ${serial}` }],
  })

/** Sends one chat. */
export function chat(port: number, agent: Agent, serial: number, aborts = false): Promise<ChatEnd> {
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
    sent.on('error', () => resolve(aborts ? 'aborted' : 'lost'))
    sent.end(chatBody(serial))
  })
}

export async function runChats({ port, requests, connections, abortEvery }: ChatPlan): Promise<ChatCounts> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const counts = { complete: 0, aborted: 0, lost: 0 }
  let serial = 0
  const client = async (): Promise<void> => {
    while (serial < requests) {
      serial++
      counts[await chat(port, agent, serial, abortEvery > 0 && serial % abortEvery === 0)]++
    }
  }
  await Promise.all(Array.from({ length: connections }, client))
  agent.destroy()
  return { sent: requests, ...counts }
}
