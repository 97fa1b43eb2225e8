import { useEffect, useRef, useState } from 'preact/hooks'
import { type Chat, type ChatRequest, streamChat } from './chat-request.ts'
import { DecisionWhy } from './decision-why.tsx'
import { errorText } from './error-text.ts'
import { count, ms } from './format.ts'
import { PlaygroundForm } from './playground-form.tsx'
import { ProblemLine } from './problem-line.tsx'

interface PlaygroundProps {
  readonly models: readonly string[]
  /** Key of a client, which only this page holds, until it is closed or reloaded. */
  readonly clientKey: string
  readonly onClientKey: (key: string) => void
}

/** Sends one message as a client would, streams the answer, and explains where the request was placed. */
export function Playground({ models, clientKey, onClientKey }: PlaygroundProps) {
  const [chat, setChat] = useState<Chat | null>(null)
  const [problem, setProblem] = useState<string | null>(null)
  const running = useRef<AbortController | null>(null)
  const [isRunning, setRunning] = useState(false)
  useEffect(() => () => running.current?.abort(), [])
  const send = async (request: ChatRequest) => {
    const own = new AbortController()
    running.current?.abort()
    running.current = own
    setChat(null)
    setProblem(null)
    setRunning(true)
    try {
      await streamChat(request, { signal: own.signal, onProgress: setChat })
    } catch (error) {
      if (!own.signal.aborted) setProblem(errorText(error))
    } finally {
      if (running.current === own) setRunning(false)
    }
  }
  return (
    <section aria-labelledby="playground-title">
      <h2 id="playground-title">Playground</h2>
      <p class="dim">
        Sends a chat through <code>/v1/chat/completions</code> of this gateway, as a client would: the key, its limits
        and usage apply.
      </p>
      <PlaygroundForm
        models={models}
        clientKey={clientKey}
        onClientKey={onClientKey}
        isRunning={isRunning}
        onSend={(request) => void send(request)}
        onStop={() => running.current?.abort()}
      />
      <ProblemLine text={problem} />
      {chat !== null && <Answer chat={chat} isRunning={isRunning} />}
    </section>
  )
}

function Answer({ chat, isRunning }: { readonly chat: Chat; readonly isRunning: boolean }) {
  const { progress, firstTextMs, requestId } = chat
  const { text, reasoning, outputTokens, problem } = progress
  const facts = [
    isRunning ? 'streaming' : 'ended',
    ...(firstTextMs === null ? [] : [`first text after ${ms(firstTextMs)}`]),
    ...(outputTokens === null ? [] : [`${count(outputTokens)} tokens`]),
  ]
  return (
    <>
      <div class="answer panel" aria-live="polite" aria-busy={isRunning}>
        {reasoning !== '' && <p class="dim">{reasoning}</p>}
        <p data-answer>{text}</p>
        <ProblemLine text={problem} />
        <p class="dim" role="status">
          {facts.join(' · ')}
        </p>
      </div>
      {requestId !== null && !isRunning && <Decision id={requestId} />}
    </>
  )
}

function Decision({ id }: { readonly id: string }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <>
      <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        {isOpen ? 'Close the decision' : 'Why this engine?'}
      </button>
      {isOpen && (
        <div class="found">
          <DecisionWhy key={id} id={id} />
        </div>
      )}
    </>
  )
}
