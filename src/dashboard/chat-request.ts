/** One request of the playground. Goes to the endpoint that clients use, with the key of a client. */
import { addToChat, type ChatProgress, noProgress } from './chat-stream.ts'
import { messageOf, RequestError } from './gateway.ts'

export interface ChatRequest {
  readonly model: string
  readonly message: string
  readonly maxTokens: number
  /** Empty: the gateway accepts requests without a key. */
  readonly key: string
}

export interface Chat {
  readonly progress: ChatProgress
  /** Id by which the gateway explains its decision. */
  readonly requestId: string | null
  /** Time to the first text, as this page measured it, ms; null: none yet. */
  readonly firstTextMs: number | null
}

interface ChatTerms {
  readonly signal: AbortSignal
  readonly onProgress: (chat: Chat) => void
}

/** Streams the answer. Throws `RequestError` if the gateway refuses the request. */
export async function streamChat(request: ChatRequest, { signal, onProgress }: ChatTerms): Promise<void> {
  const { model, message, maxTokens, key } = request
  const startedAt = performance.now()
  const response = await fetch('v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === '' ? {} : { authorization: `Bearer ${key}` }) },
    body: JSON.stringify({
      model,
      stream: true,
      stream_options: { include_usage: true },
      max_tokens: maxTokens,
      messages: [{ role: 'user', content: message }],
    }),
    cache: 'no-store',
    signal,
  })
  const requestId = response.headers.get('x-request-id')
  let chat: Chat = { progress: noProgress, requestId, firstTextMs: null }
  if (!response.ok) throw new RequestError(response.status, await messageOf(response))
  onProgress(chat)
  const text = response.body!.pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
  const reader = text.getReader()
  for (;;) {
    const { done, value } = await reader.read()
    if (done) return
    const progress = addToChat(chat.progress, value)
    const hasText = progress.text !== '' || progress.reasoning !== ''
    chat = { ...chat, progress, firstTextMs: chat.firstTextMs ?? (hasText ? performance.now() - startedAt : null) }
    onProgress(chat)
  }
}
