// A link to a row of a folded table opens the table first: not every browser does so by itself.
(function () {
  function unfold() {
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    var fold = target && target.closest("details:not([open])");
    if (fold) {
      fold.open = true;
      target.scrollIntoView();
    }
  }
  window.addEventListener("hashchange", unfold);
  window.addEventListener("DOMContentLoaded", unfold);
})();
