// Search of the documentation, in the page. The index is fetched with the first focus of the search box.
import MiniSearch from 'minisearch'
import { searchOptions } from './search-options.ts'

const root = new URL(document.querySelector('script[data-root]').dataset.root, location.href)
const box = document.querySelector('.search input')
const list = document.querySelector('#results')
let index

function loadIndex() {
  index ??= fetch(new URL('search-index.json', root))
    .then((response) => response.text())
    .then((text) => MiniSearch.loadJSON(text, searchOptions))
  return index
}

function entry({ address, title, heading, text }) {
  const item = document.createElement('li')
  const link = document.createElement('a')
  link.href = new URL(address, root)
  link.textContent = heading === '' || heading === title ? title : `${title} › ${heading}`
  const excerpt = document.createElement('small')
  excerpt.textContent = text
  link.append(excerpt)
  item.append(link)
  return item
}

async function search() {
  const words = box.value.trim()
  const found = words === '' ? [] : (await loadIndex()).search(words)
  if (words !== box.value.trim()) return
  list.replaceChildren(...found.slice(0, 12).map(entry))
  list.hidden = words === ''
  if (words !== '' && found.length === 0) list.append('No page has these words.')
}

box.addEventListener('focus', () => void loadIndex())
box.addEventListener('input', () => void search())
document.addEventListener('keydown', (event) => {
  if (event.key === '/' && document.activeElement !== box) {
    event.preventDefault()
    box.focus()
  } else if (event.key === 'Escape') list.hidden = true
  else if (event.key === 'Enter' && document.activeElement === box) list.querySelector('a')?.click()
})
document.addEventListener('click', (event) => {
  if (!event.target.closest('.search')) list.hidden = true
})
