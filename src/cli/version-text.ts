import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { VERSION } from '../version.ts'

/** Set by the bundler (scripts/bundle-node.ts). */
declare const FIRSTLIGHT_COMMIT: string | undefined

/** Version and commit of this program, as in `0.1.0 (commit 0123456789ab)`. Without the commit if it is unknown. */
export function versionText(): string {
  const hash = commit()
  return `${VERSION}${hash === null ? '' : ` (commit ${hash})`}`
}

/** Short hash of the commit that this program was built from. null: unknown. */
function commit(): string | null {
  if (typeof FIRSTLIGHT_COMMIT === 'string') return FIRSTLIGHT_COMMIT === '' ? null : FIRSTLIGHT_COMMIT
  const root = fileURLToPath(new URL('../..', import.meta.url))
  return existsSync(`${root}.git`) ? gitCommit(root) : null
}

/** Commit of a checkout. null: it is none, or git is missing. */
export function gitCommit(root: string): string | null {
  try {
    const hash = execFileSync('git', ['rev-parse', '--short=12', 'HEAD'], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    return hash.toString().trim()
  } catch {
    return null
  }
}
