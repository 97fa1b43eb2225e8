import { useState } from 'preact/hooks'
import type { ChatRequest } from './chat-request.ts'

interface PlaygroundFormProps {
  readonly models: readonly string[]
  readonly clientKey: string
  readonly onClientKey: (key: string) => void
  readonly isRunning: boolean
  readonly onSend: (request: ChatRequest) => void
  readonly onStop: () => void
}

const MAX_TOKENS = 256

/** Model, key and message of a request. */
export function PlaygroundForm(props: PlaygroundFormProps) {
  const { models, clientKey, onClientKey, isRunning, onSend, onStop } = props
  const [model, setModel] = useState<string | null>(null)
  const [message, setMessage] = useState('')
  const [maxTokens, setMaxTokens] = useState(MAX_TOKENS)
  const chosen = model ?? models[0] ?? ''
  return (
    <form
      class="fields panel"
      onSubmit={(event) => {
        event.preventDefault()
        onSend({ model: chosen, message, maxTokens, key: clientKey.trim() })
      }}
    >
      <label>
        Model
        <select aria-label="Model" value={chosen} onChange={(event) => setModel(event.currentTarget.value)}>
          {models.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
      </label>
      <label>
        Client key
        <input
          type="password"
          aria-label="Client key"
          autocomplete="off"
          spellcheck={false}
          placeholder="forgotten when the page closes"
          value={clientKey}
          onInput={(event) => onClientKey(event.currentTarget.value)}
        />
      </label>
      <label>
        Tokens at most
        <input
          type="number"
          aria-label="Tokens at most"
          min={1}
          required
          value={maxTokens}
          onInput={(event) => setMaxTokens(event.currentTarget.valueAsNumber)}
        />
      </label>
      <label class="wide">
        Message
        <textarea
          aria-label="Message"
          rows={3}
          required
          value={message}
          onInput={(event) => setMessage(event.currentTarget.value)}
        />
      </label>
      <button type="submit" class="primary" disabled={isRunning || chosen === ''}>
        Send
      </button>
      {isRunning && (
        <button type="button" onClick={onStop}>
          Stop
        </button>
      )}
    </form>
  )
}
