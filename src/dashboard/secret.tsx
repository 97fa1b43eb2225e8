import { useState } from 'preact/hooks'

interface SecretProps {
  readonly name: string
  readonly secret: string
  readonly onClose: () => void
}

/** Shows the secret of a new key, once. */
export function Secret({ name, secret, onClose }: SecretProps) {
  const [isCopied, setCopied] = useState(false)
  const copy = async () => {
    await navigator.clipboard.writeText(secret)
    setCopied(true)
  }
  return (
    <div class="secret panel" role="status">
      <p>
        The key of <b>{name}</b>. Copy it now: the gateway stores only its hash, and this page does not show it again.
      </p>
      <p>
        <code data-secret>{secret}</code>
      </p>
      {/* Browsers have a clipboard only on https and on this machine. */}
      {'clipboard' in navigator && (
        <button type="button" class="small" onClick={() => void copy()}>
          {isCopied ? 'copied' : 'copy'}
        </button>
      )}{' '}
      <button type="button" class="small" onClick={onClose}>
        I have it
      </button>
    </div>
  )
}
