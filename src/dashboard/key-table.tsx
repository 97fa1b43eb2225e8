import type { KeysView, KeyView } from '../api/openapi/key.ts'
import { count, plural } from './format.ts'
import { expiryOf, isExpired, limitTexts } from './key-text.ts'
import { RevokeButton } from './revoke-button.tsx'

interface KeyTableProps {
  readonly list: KeysView
  readonly onChange: () => Promise<void>
}

/** All keys with their rights. Those of the configuration can be changed only there. */
export function KeyTable({ list: { keys }, onChange }: KeyTableProps) {
  return (
    <section aria-labelledby="key-list">
      <div class="head">
        <h2 id="key-list">Keys</h2>
        <span class="dim" role="status">
          {plural(keys.length, 'key')}
        </span>
      </div>
      {keys.length === 0 ? (
        <p class="empty">
          There are no keys. Without <code>keys</code> in the configuration, <code>open: true</code> accepts requests of
          all clients.
        </p>
      ) : (
        <table class="lines keys">
          <caption class="hidden">Keys of clients with their rights</caption>
          <thead>
            <tr>
              {['key', 'owner', 'team', 'models', 'limits', 'expires'].map((head) => (
                <th key={head} scope="col">
                  {head}
                </th>
              ))}
              <th scope="col" class="number">
                requests
              </th>
              <th scope="col">
                <span class="hidden">revoke</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {keys.map((key) => (
              <KeyRow key={key.name} of={key} onChange={onChange} />
            ))}
          </tbody>
        </table>
      )}
    </section>
  )
}

function KeyRow({ of: key, onChange }: { readonly of: KeyView; readonly onChange: () => Promise<void> }) {
  const { name, source, owner, team, models, usage } = key
  const limits = limitTexts(key)
  return (
    <tr data-key={name}>
      <th scope="row">{name}</th>
      <td data-label="owner">{owner ?? <None />}</td>
      <td data-label="team">{team ?? <None />}</td>
      <td data-label="models">
        {models === null ? <span class="dim">{team === null ? 'all' : 'as the team'}</span> : models.join(', ')}
      </td>
      <td data-label="limits">{limits.length === 0 ? <None /> : limits.join(', ')}</td>
      <td data-label="expires">
        <Expiry expires={expiryOf(key)} />
      </td>
      <td data-label="requests" class="number">
        {count(usage?.requests ?? 0)}
      </td>
      <td class="act">
        {source === 'issued' ? (
          <RevokeButton name={name} onRevoked={onChange} />
        ) : (
          <span class="dim" title="Change or remove it in the configuration.">
            in the configuration
          </span>
        )}
      </td>
    </tr>
  )
}

const None = () => <span class="dim">–</span>

function Expiry({ expires }: { readonly expires: string | null }) {
  if (expires === null) return <span class="dim">never</span>
  const text = expires.replace('T', ' ').replace(/(:\d\d)?(\.000)?Z$/, ' UTC')
  return isExpired(expires, Date.now()) ? <span class="wrong">expired {text}</span> : <>{text}</>
}
