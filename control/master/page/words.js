// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them, and elements. Texts of programs go into elements as texts, never as markup.

export function time(seconds) {
  const steps = [[1e-6, 1e9, "ns", 0], [1e-3, 1e6, "µs", 1], [1, 1e3, "ms", 1], [120, 1, "s", 1], [7200, 1 / 60, "min", 1]];
  for (const [below, times, unit, digits] of steps) {
    if (seconds < below) {
      return `${(seconds * times).toFixed(digits)} ${unit}`;
    }
  }
  return `${(seconds / 3600).toFixed(1)} h`;
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; count >= 1024 && unit < units.length - 1; unit++) {
    count /= 1024;
  }
  return `${Number.isInteger(count) ? count : count.toFixed(1)} ${units[unit]}`;
}

export function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : word.endsWith("s") ? "es" : "s"}`;
}

// An element with properties, and children that are elements or texts.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key in made) {
      made[key] = value;
    } else {
      made.setAttribute(key, value);
    }
  }
  made.append(...children);
  return made;
}

// What is under the pointer.
export function hint(event, text) {
  const box = document.getElementById("hint");
  box.hidden = !text;
  if (!text) {
    return;
  }
  box.textContent = text;
  const wide = box.offsetWidth, high = box.offsetHeight;
  box.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - wide - 4))}px`;
  box.style.top = `${event.clientY + 18 + high > innerHeight ? event.clientY - high - 10 : event.clientY + 18}px`;
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A canvas as sharp as the screen; [context, width, height] in CSS pixels.
export function prepare(canvas, height) {
  const width = Math.max(200, canvas.parentElement.clientWidth), ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
  return [context, width, height];
}
